"""SQL without a broker and without a JVM: statements and records in, what the sinks received out.

    run("CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"
        "CREATE STREAM t AS SELECT id, v * 2 AS w FROM s;",
        [{"topic": "in", "key": 1, "value": {"v": 4}, "timestamp": 0}])
    -> [{"topic": "T", "key": 1, "value": {"W": 8}, "timestamp": 0}]

Queries run in the order of their statements. Each takes all its inputs before the next begins: the given records, in
their order, each completely before the next; then what earlier queries wrote, topic by topic. A query that reads the
topic that it writes takes its own results, too; one that makes ever more of them is ended with an error.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from headwater.schemas import SchemaType
from headwater.sql.formats.json_rows import JsonFormat, writing
from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.formats.registry.serde import RegistryFormat
from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import pieces_of
from headwater.sql.language.tree import WindowKind
from headwater.sql.language.types import Base
from headwater.sql.plan import reading, windowed
from headwater.sql.plan.catalog import RowFormat, SourceInfo
from headwater.sql.plan.inference import register
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import TOPIC_PREFIX, PersistentQuery, Session
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.model.record import OutputRecord
from headwater.streams.testing.driver import Driver

OWN_RECORDS_MAX: Final = 100_000  # that a query makes of one record, where it reads what it writes
OWN_BYTES_MAX: Final = 64 * 1024 * 1024
Sent = dict[str, Any]


def run(
    statements: str | Iterable[str],
    inputs: Iterable[Mapping[str, Any]],
    properties: Mapping[str, str] | None = None,
    *,
    topics: Iterable[Mapping[str, Any]] = (),
) -> list[Sent]:
    """The records that the sinks of `statements` received, in order per topic. `topics` may say which schemas topics
    have in the registry, which is one of this call alone: `{"name", "keySchema"?, "valueSchema"?, "keySchemaId"?,
    "valueSchemaId"?}`.
    """
    made, inserted = prepared(statements, properties, topics)
    given = [(str(each["topic"]), encoded(each, made)) for each in inputs]
    return Run(made, [*inserted, *given], in_driver).outputs()


def prepared(
    statements: str | Iterable[str],
    properties: Mapping[str, str] | None = None,
    topics: Iterable[Mapping[str, Any]] = (),
    *,
    prefix: str = "",
    brokers: str = "localhost:9092",
) -> tuple[Session, list[tuple[str, OutputRecord]]]:
    """The session that statements make, and the records of INSERT VALUES. `prefix`: of all its topics and
    applications.
    """
    schemas = MemorySchemas()
    made = Session(
        settings=dict(properties or {}),
        schemas=schemas,
        functions_allowed=EVERYTHING,
        service_id=prefix or "default_",
        brokers=brokers,
    )
    for each in topics:
        _add_schemas(schemas, {**each, "name": prefix + each["name"]})
    text = statements if isinstance(statements, str) else "\n".join(statements)
    inserted: list[tuple[str, OutputRecord]] = []
    for piece in pieces_of(text):
        for statement in made.parse(*piece):
            done = made.execute(_with_prefix(statement, made, prefix) if prefix else statement)
            if isinstance(statement, tree.CreateSource) and statement.name in made.catalog.sources:
                register(made.catalog.sources[statement.name])
            if isinstance(done, PersistentQuery):
                register(done.sink)
            if isinstance(done, Insertion):
                inserted.append((done.target.topic, _inserted(done)))
    return made, inserted


def _with_prefix(statement: tree.Statement, made: Session, prefix: str) -> tree.Statement:
    """The same, of a topic with the prefix in front of its name."""
    if not isinstance(statement, tree.CreateSource | tree.CreateAs):
        return statement
    topic = statement.properties.get("KAFKA_TOPIC", made.settings.get(TOPIC_PREFIX, "") + statement.name)
    return replace(statement, properties=tree.Properties({**statement.properties, "KAFKA_TOPIC": f"{prefix}{topic}"}))


CarryOut = Callable[[PersistentQuery, list[tuple[str, OutputRecord]]], list[OutputRecord]]
"""What a query writes to its sink, for records of topics: those that it reads, each completely before the next."""


def in_driver(query: PersistentQuery, records: list[tuple[str, OutputRecord]]) -> list[OutputRecord]:
    """In this process, by the test driver of streams."""
    driver = _Driver(query)
    topics = driver.input_topics
    for topic, record in records:
        if topic in topics:
            driver.pipe(topic, record.key, record.value, record.timestamp, record.headers)
    return driver.read_raw(query.sink.topic)


class _Driver(Driver):
    """Of a query that may read what it writes. Such a loop need not end: nothing but memory would stop it here."""

    def __init__(self, query: PersistentQuery) -> None:
        self._query = query
        self._records = self._bytes = 0
        super().__init__(query.app, cache_max_bytes=query.app.cache_max_bytes)

    def pipe(self, *given: Any, **more: Any) -> None:
        self._records = self._bytes = 0
        super().pipe(*given, **more)

    def _take(self, output: TaskOutput) -> None:
        """Raises SqlError when one record has led to too many."""
        topic = self._query.sink.topic
        if (topic, 0) in self._owner:
            own = [each for each in output.records if each.topic == topic]
            self._records += len(own)
            self._bytes += sum(len(each.value or b"") for each in own)
            if self._records > OWN_RECORDS_MAX or self._bytes > OWN_BYTES_MAX:
                raise SqlError(
                    f"The query {self._query.id} reads the topic {topic}, into which it writes, and comes to no end.",
                    why=f"It made {self._records} records ({self._bytes} bytes) of one record and of its own results",
                    hint="Write into another topic, or have a condition that holds for some of the results alone.",
                )
        super()._take(output)


class Run:
    """The queries of a session over given records."""

    def __init__(self, made: Session, inputs: list[tuple[str, OutputRecord]], carry_out: CarryOut) -> None:
        self._session = made
        self._inputs = inputs
        self._carry_out = carry_out
        self._written: dict[str, list[OutputRecord]] = {}  # by topic, in the order of first writing

    def outputs(self) -> list[Sent]:
        for query in self._session.queries.values():
            self._run(query)
        sinks = {each.sink.topic: each.sink for each in self._session.queries.values()}
        return [_decoded(record, sinks[topic]) for topic, records in self._written.items() for record in records]

    def _run(self, query: PersistentQuery) -> None:
        earlier = [(topic, record) for topic, records in self._written.items() for record in records]
        written = self._carry_out(query, [*self._inputs, *earlier])
        self._written.setdefault(query.sink.topic, []).extend(written)


def _source_of(topic: str, made: Session) -> SourceInfo:
    for source in made.catalog:
        if source.topic == topic:
            return source
    raise SqlError(f"No stream or table reads the topic {topic}.", hint="Look at KAFKA_TOPIC of the statements.")


def encoded(given: Mapping[str, Any], made: Session) -> OutputRecord:
    """A given record as the bytes that its topic would have."""
    source = _source_of(str(given["topic"]), made)
    key = encode(given.get("key"), source.key_format, source.key_fields)
    if key is not None and given.get("window") and source.window:
        start, end = given["window"]["start"], given["window"]["end"]
        key = windowed.encode_key(key, source.window.kind, start, end)
    value = encode(given.get("value"), source.value_format, source.value_fields)
    headers = tuple((each["KEY"], _header(each["VALUE"])) for each in given.get("headers") or ())
    return OutputRecord(str(given["topic"]), 0, key, value, int(given.get("timestamp") or 0), headers)


def _header(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def encode(value: Any, format_: RowFormat, fields: Sequence[Field]) -> bytes | None:
    """JSON's value as the bytes of a record in this format."""
    if value is None:
        return None
    known = format_named(format_.name)
    if isinstance(known, RegistryFormat) and fields:
        return _with_schema(value, known, format_, fields)
    bases = [each.type.base for each in fields]
    match format_.name:
        case "JSON":
            return json.dumps(value).encode()
        case "KAFKA" if bases and isinstance(value, int | float | str):
            return _kafka(value, bases[0])
        case _:
            return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _with_schema(value: Any, known: RegistryFormat, format_: RowFormat, fields: Sequence[Field]) -> bytes:
    """By the schema that the topic has, whatever columns the source reads of it."""
    schemas, subject = format_.options.schemas, format_.options.subject
    latest = schemas.latest(subject) if schemas is not None and subject is not None and known.framed else None
    options = format_.options
    if latest is not None:
        exact = replace(options, schema_id=latest.id)
        fields = known.inferred(latest.schema, exact, key=bool(subject and subject.endswith("-key")))
        options = exact
    wrapped = known.wraps(fields, options)
    row = JsonFormat().serde(fields, FormatOptions(wrap_single=wrapped)).deserialize(json.dumps(value).encode())
    return known.serde(fields, options).serialize(row)


def _add_schemas(schemas: MemorySchemas, topic: Mapping[str, Any]) -> None:
    for side in ("key", "value"):
        text = topic.get(f"{side}Schema")
        if text is None:
            continue
        proto = isinstance(text, str) and ("message" in text or "syntax" in text)
        kinds = {"AVRO": SchemaType.AVRO, "JSON_SR": SchemaType.JSON, "JSON": SchemaType.JSON}
        kind = kinds.get(str(topic.get(f"{side}Format", topic.get("format", "AVRO"))).upper(), SchemaType.AVRO)
        if isinstance(text, dict) and (
            text.keys() & {"properties", "oneOf"} or text.get("type") in ("object", "integer")
        ):
            kind = SchemaType.JSON
        kind = SchemaType.PROTOBUF if proto else kind
        references = [(each["name"], _schema_text(each["schema"])) for each in topic.get(f"{side}SchemaReferences", ())]
        number = topic.get(f"{side}SchemaId")
        schemas.add(f"{topic['name']}-{side}", kind, _schema_text(text), references, number)


def _schema_text(given: Any) -> str:
    """A .proto file or JSON's text as it is; the name of a primitive type in quotes."""
    if not isinstance(given, str):
        return json.dumps(given)
    return given if given[:1] in ("{", "[", '"') or "message" in given or "syntax" in given else json.dumps(given)


def _kafka(value: Any, base: Base) -> bytes:
    match base:
        case Base.INTEGER:
            return struct.pack(">i", int(value))
        case Base.BIGINT:
            return struct.pack(">q", int(value))
        case Base.DOUBLE:
            return struct.pack(">d", float(value))
        case Base.BYTES:
            return base64.b64decode(str(value))
        case _:
            return str(value).encode()


def _inserted(done: Insertion) -> OutputRecord:
    key = None if done.key is None else reading.key_serde(done.target).serialize(done.key)
    value = None if done.value is None else reading.value_serde(done.target).serialize(done.value)
    return OutputRecord(done.target.topic, 0, key, value, done.timestamp or 0, ())


def _decoded(record: OutputRecord, sink: SourceInfo) -> Sent:
    sent: Sent = {"topic": sink.topic, "key": None, "value": None, "timestamp": record.timestamp}
    key = record.key
    if key is not None and sink.window:
        key, start, end = windowed.decode_key(key, sink.window)
        kind = "SESSION" if sink.window.kind is WindowKind.SESSION else "TIME"
        sent["window"] = {"start": start, "end": end, "type": kind}
    if key is not None and sink.key_columns:
        sent["key"] = decode(key, sink.key_format, sink, keys=True)
    if record.value is not None:
        sent["value"] = decode(record.value, sink.value_format, sink, keys=False)
    return sent


def decode(data: bytes, format_: RowFormat, sink: SourceInfo, *, keys: bool) -> Any:
    """Bytes of a record as JSON's value."""
    if format_.name == "JSON":
        return json.loads(data)
    if format_.name == "DELIMITED":
        return data.decode()
    if format_.name == "NONE":
        return None
    known = format_named(format_.name)
    if isinstance(known, RegistryFormat):
        return _shown(data, known, format_, sink.key_fields if keys else sink.value_fields)
    columns = sink.key_columns if keys else sink.value_columns
    row = (reading.plain_key_serde(sink) if keys else reading.value_serde(sink)).deserialize(data)
    if not columns:
        return None
    value = writing(columns[0].type)(row[0])
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _shown(data: bytes, known: RegistryFormat, format_: RowFormat, fields: Sequence[Field]) -> Any:
    """A row as JSON has it: an object, or the value alone where it stands alone."""
    schemas, number = format_.options.schemas, format_.options.schema_id
    schema = schemas.by_id(number) if schemas is not None and number is not None else None
    if schema is not None:  # it may have more fields than the sink has columns
        fields = known.inferred(schema, format_.options, key=bool((format_.options.subject or "").endswith("-key")))
    wrapped = known.wraps(fields, format_.options)
    row = known.serde(fields, format_.options).deserialize(data)
    return json.loads(JsonFormat().serde(fields, FormatOptions(wrap_single=wrapped)).serialize(row))


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place in a topic where what was expected and what came differ; None is a record that is not there."""

    topic: str
    place: int
    expected: Sent | None
    found: Sent | None

    def __str__(self) -> str:
        return f"{self.topic}, record {self.place + 1}: expected {_told(self.expected)}, found {_told(self.found)}"


def _told(record: Sent | None) -> str:
    return "nothing more" if record is None else json.dumps(record, ensure_ascii=False)


def differences(expected: Iterable[Mapping[str, Any]], found: Iterable[Sent]) -> list[Difference]:
    """One for each topic that is not as expected. Only what an expected record says is compared; doubles within
    1e-6.
    """
    wanted: dict[str, list[Sent]] = {}
    given: dict[str, list[Sent]] = {}
    for each in expected:
        wanted.setdefault(str(each["topic"]), []).append(dict(each))
    for record in found:
        given.setdefault(record["topic"], []).append(record)
    result = []
    for topic, records in wanted.items():
        pairs = itertools.zip_longest(records, given.get(topic, []))
        different = next((at for at, (one, other) in enumerate(pairs) if not _matches(one, other)), None)
        if different is not None:
            pair = [side[different] if different < len(side) else None for side in (records, given.get(topic, []))]
            result.append(Difference(topic, different, *pair))
    return result


def _matches(expected: Sent | None, found: Sent | None) -> bool:
    if expected is None or found is None:
        return False
    window, other = expected.get("window"), found.get("window")
    if window and (other is None or any(window[each] != other[each] for each in ("start", "end"))):
        return False
    return all(_alike(expected[name], found[name]) for name in ("key", "value", "timestamp") if name in expected)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) != isinstance(other, str) and all(
        isinstance(each, int | float | str) for each in (one, other)
    ):
        return _number(one) == _number(other) is not None  # a DECIMAL may be given as text
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():  # names of columns may be written in any case
            one, other = _upper(one), _upper(other)
        return one.keys() == other.keys() and all(_alike(each, other[name]) for name, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _number(given: Any) -> Decimal | None:
    try:
        return Decimal(str(given))
    except ArithmeticError:
        return None


def _upper(given: dict[str, Any]) -> dict[str, Any]:
    return {name.upper(): each for name, each in given.items()}
