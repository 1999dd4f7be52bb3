"""What the converters with a schema registry share: their properties, the registry's client, subjects, frames, errors.

A converter owns its client and what it has compiled, for one task. A registry that does not answer is a reason to try
again (`errors.retry.timeout`); a schema that it refuses, or a value that does not fit, is an error of that record.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf
from headwater.base.errors import UserError
from headwater.client.schema_registry.client import RegisteredSchema, SchemaRegistryClient
from headwater.client.schema_registry.errors import SchemaRegistryError
from headwater.client.schema_registry.settings import SerdeSettings
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyList, flag, listing, secret, text, whole
from headwater.connect.converters.base import CONVERTER_TYPE, Converter
from headwater.connect.data.runs import ArrowColumn
from headwater.connect.data.schema import NULL, Schema, SchemaAndValue
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from headwater.schemas import ParsedSchema, SchemaError, SchemaType, StoredSchema, incompatibilities
from headwater.schemas.framing import SchemaId, read_schema_id
from headwater.schemas.model import DataError as SchemaDataError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class _Strategy:
    def check(self, name: str, value: object) -> None:
        if str(value).removeprefix(_PACKAGE) not in _STRATEGIES:
            raise ConfigValueError(name, value, f"must be one of {', '.join(_STRATEGIES)}")

    def __str__(self) -> str:
        return ", ".join(_STRATEGIES)


REGISTRY_DEF: Final = ConfigDef(
    CONVERTER_TYPE,
    listing("schema.registry.url", REQUIRED, HIGH, "The registry's address, or several of one registry: http://localhost:8081.", NonEmptyList()),
    flag("auto.register.schemas", True, MEDIUM, "Whether schemas are registered when a record first has them; otherwise they must be there."),
    flag("use.latest.version", False, LOW, "Whether values are written with the latest schema of the subject instead of their own, and read with it."),
    flag("latest.compatibility.strict", True, LOW, "Whether that latest schema must be able to read what the record's own schema writes."),
    whole("use.schema.id", -1, LOW, "The id of the schema to write with. -1: not given.", AtLeast(-1)),
    flag("normalize.schemas", False, LOW, "Whether the registry normalizes schemas before it compares them."),
    text("key.subject.name.strategy", f"{_PACKAGE}TopicNameStrategy", MEDIUM, "How the subject of a key's schema is named; with or without Java's package.", _Strategy()),
    text("value.subject.name.strategy", f"{_PACKAGE}TopicNameStrategy", MEDIUM, "How the subject of a value's schema is named.", _Strategy()),
    whole("max.schemas.per.subject", 1000, LOW, "How many answers of the registry are kept.", AtLeast(1)),
    whole("latest.cache.ttl.sec", 60, LOW, "How long (s) the latest version of a subject is taken as such.", AtLeast(0)),
    text("basic.auth.credentials.source", "URL", MEDIUM, "Where the user's name and password are: URL (http://user:password@host), or USER_INFO (basic.auth.user.info).", OneOf("URL", "USER_INFO")),
    secret("basic.auth.user.info", None, MEDIUM, "The user's name and password: name:password."),
    secret("bearer.auth.token", None, MEDIUM, "A token that the registry takes."),
    text("schema.registry.ssl.ca.location", None, MEDIUM, "A PEM file with the authorities that the registry's certificate may come from. Not given: the system's."),
)  # fmt: skip


class Writing(NamedTuple):
    """How values of one schema are written."""

    prefix: bytes
    encode: Callable[[Any], bytes]


# Of values, and of the bytes that stand before each; raises Unfit.
ColumnReader: TypeAlias = Callable[["pa.Array", bytes], "pa.StructArray"]


class Reading(NamedTuple):
    """How values of one registered schema are read."""

    schema: Schema | None
    decode: Callable[[bytes], Any]
    columns: Callable[[], "ColumnReader | None"] = lambda: None  # of many at once, made when somebody wants them


class Unfit(Exception):
    """These values go one by one, and not as columns."""


class RegistryConverter(Converter):
    """A format gives the schema of a record, and compiles what writes and reads its values."""

    for_headers = False
    strict = True
    schema_type: SchemaType

    def setup(self, config: Mapping[str, Any]) -> None:
        self._config = config
        is_key = config["converter.type"] == "key"
        strategy = config["key.subject.name.strategy" if is_key else "value.subject.name.strategy"]
        self._serde = SerdeSettings(subject_name_strategy=strategy.removeprefix(_PACKAGE), is_key=is_key)
        self._kept_max = max(1, int(config["schemas.cache.config"]))
        self._writing: dict[tuple[str, Schema | None, int], Writing] = {}
        self._own: dict[Schema | None, StoredSchema] = {}
        self._reading: dict[tuple[str, int | str, tuple[int, ...], int], Reading] = {}
        self.registry = self.connect(config)

    def connect(self, config: Mapping[str, Any]) -> SchemaRegistryClient:
        given = {
            "url": ",".join(config["schema.registry.url"]),
            "latest.cache.ttl.sec": config["latest.cache.ttl.sec"],
            "cache.capacity": config["max.schemas.per.subject"],
            "bearer.auth.token": config["bearer.auth.token"],
            "ssl.ca.location": config["schema.registry.ssl.ca.location"],
        }
        if config["basic.auth.credentials.source"] == "USER_INFO":
            given["basic.auth.user.info"] = config["basic.auth.user.info"]
        try:
            return SchemaRegistryClient({name: value for name, value in given.items() if value is not None})
        except UserError as error:
            raise ConfigError(str(error), name="schema.registry.url") from None

    def close(self) -> None:
        self.registry.close()

    # What a format does

    def own_schema(self, schema: Schema | None) -> StoredSchema:
        """A schema of Connect's in this format."""
        raise NotImplementedError

    def writer(self, schema: Schema | None, target: ParsedSchema) -> Callable[[Any], bytes]:
        raise NotImplementedError

    def reader(self, writer: ParsedSchema, latest: ParsedSchema | None, version: int | None) -> Reading:
        raise NotImplementedError

    def reader_at(
        self, writer: ParsedSchema, latest: ParsedSchema | None, version: int | None, message_indexes: tuple[int, ...]
    ) -> Reading:
        """The indexes are Protobuf's: which message of the file it is."""
        del message_indexes
        return self.reader(writer, latest, version)

    def message_indexes(self, target: ParsedSchema) -> tuple[int, ...]:
        """What is written after the schema's id: Protobuf's alone."""
        del target
        return ()

    # Writing

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        with errors(f"Failed to serialize {self.schema_type} data for topic {topic}"):
            own = self._own_schema(schema)
            latest = self._latest(topic, own) if self._config["use.latest.version"] else None
            key = (topic, schema, latest.id if latest is not None else 0)
            writing = self._writing.get(key)
            if writing is None:
                writing = _keep(self._writing, self._kept_max, key, self._prepare(topic, schema, own, latest))
            return writing.prefix + writing.encode(value)

    def _own_schema(self, schema: Schema | None) -> StoredSchema:
        found = self._own.get(schema)
        return found if found is not None else _keep(self._own, self._kept_max, schema, self.own_schema(schema))

    def _latest(self, topic: str, own: StoredSchema) -> RegisteredSchema:
        return self.registry.latest(self._serde.subject(topic, self.registry.parsed(own).name))

    def _prepare(
        self, topic: str, schema: Schema | None, own: StoredSchema, latest: RegisteredSchema | None
    ) -> Writing:
        parsed = self.registry.parsed(own)
        chosen = self._config["use.schema.id"]
        if chosen >= 0:
            registered = RegisteredSchema(chosen, self.registry.schema_by_id(chosen))
        elif latest is not None:
            registered = latest
        else:
            subject = self._serde.subject(topic, parsed.name)
            ask = self.registry.register if self._config["auto.register.schemas"] else self.registry.lookup
            registered = ask(subject, own, normalize=self._config["normalize.schemas"])
        target = self.parsed(registered.schema)
        if latest is not None and self._config["latest.compatibility.strict"]:
            found = incompatibilities(target, parsed)
            if found:
                raise DataError(
                    f"The latest schema of the subject (id {registered.id}) does not read what this record's writes: {found[0].message}"
                )
        prefix = SchemaId(registered.id, message_indexes=self.message_indexes(target)).prefix()
        return Writing(prefix, self.writer(schema, target))

    def parsed(self, stored: StoredSchema) -> ParsedSchema:
        if stored.schema_type is not self.schema_type:
            raise DataError(f"The schema is of the type {stored.schema_type}, not {self.schema_type}")
        return self.registry.parsed(stored)

    # Reading

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        with errors(f"Failed to deserialize data for topic {topic} to {self.schema_type}"):
            schema_id, position = read_schema_id(bytes(data), protobuf=self.schema_type is SchemaType.PROTOBUF)
            reading = self._reading_of(topic, schema_id)
            return SchemaAndValue(reading.schema, reading.decode(bytes(data)[position:]))

    def to_connect_columns(self, topic: str, data: "pa.Array") -> ArrowColumn | None:
        """Of values that are all there and have one schema, whose id is the usual five bytes; and are one message, of
        Protobuf's.
        """
        if data.null_count or not len(data):
            return None
        try:
            from headwater.schemas.columns import frame_ids

            ids = frame_ids(data).unique().to_pylist()
            if len(ids) != 1 or ids[0] < 0:
                return None
            first = data[0].as_py()
            with errors(f"Failed to deserialize data for topic {topic} to {self.schema_type}"):
                schema_id, position = read_schema_id(first, protobuf=self.schema_type is SchemaType.PROTOBUF)
                reading = self._reading_of(topic, schema_id)
            read = reading.columns()
            if read is None or reading.schema is None:
                return None
            found = read(data, first[:position])
        except (ImportError, Unfit, ConnectError):
            return None
        decode = reading.decode
        return ArrowColumn(reading.schema, found, lambda: [decode(each.as_py()[position:]) for each in data])

    def _reading_of(self, topic: str, schema_id: SchemaId) -> Reading:
        latest = self._latest_of_topic(topic)
        known = schema_id.id if schema_id.id is not None else str(schema_id.guid)
        key = (topic, known, schema_id.message_indexes, latest.id if latest is not None else 0)
        reading = self._reading.get(key)
        if reading is None:
            made = self._prepare_reading(topic, schema_id, latest)
            reading = _keep(self._reading, self._kept_max, key, made)
        return reading

    def _latest_of_topic(self, topic: str) -> RegisteredSchema | None:
        if not self._config["use.latest.version"] or self._serde.subject_name_strategy_needs_record():
            return None
        return self.registry.latest(self._serde.subject(topic, None))

    def _prepare_reading(self, topic: str, schema_id: SchemaId, latest: RegisteredSchema | None) -> Reading:
        by_record = self._serde.subject_name_strategy_needs_record()
        if schema_id.guid is not None:
            stored = self.registry.schema_by_guid(schema_id.guid)
        else:
            assert schema_id.id is not None
            stored = self.registry.schema_by_id(schema_id.id, None if by_record else self._serde.subject(topic, None))
        parsed = self.parsed(stored)
        subject = self._serde.subject(topic, parsed.name)
        newest = None if latest is None else self.parsed(latest.schema)
        return self.reader_at(parsed, newest, self._version(subject, stored), schema_id.message_indexes)

    def _version(self, subject: str, stored: StoredSchema) -> int | None:
        """The version that the registry has it under, if it is under this subject at all."""
        try:
            return self.registry.lookup(subject, stored, deleted=True).version or None
        except SchemaRegistryError as error:
            if error.status != 404:
                raise
            return None


def _keep(kept: dict[Any, T], most: int, key: Any, value: T) -> T:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
    return value


@contextmanager
def errors(doing: str) -> Iterator[None]:
    """Errors of the registry and of schemas, as Connect's."""
    try:
        yield
    except SchemaRegistryError as error:
        kind = RetriableError if error.status == 0 or error.status >= 500 else DataError
        raise kind(f"{doing}: {error}") from error
    except (SchemaDataError, SchemaError, UserError) as error:
        raise DataError(f"{doing}: {error}") from error
