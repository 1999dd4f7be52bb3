"""The formats with a schema registry: rows behind the id of the schema that they were written with (Confluent's
framing).

A row is read by the schema whose id stands before it, whatever the latest one is. Rows are written with the schema that
the statement named by its id; else with the latest of the subject, if it has exactly the source's columns; else with
one made of the columns, which is registered. PROTOBUF_NOSR has no id and no registry. Where a format has no subject,
the rows are within a query (repartition topics), and have the form that all internal rows have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

from headwater.schemas import ParsedSchema, SchemaError, SchemaType, parse
from headwater.schemas.framing import SchemaId, read_schema_id
from headwater.schemas.model import DataError
from headwater.sql.formats.internal import ROWS
from headwater.sql.formats.port import Field, FormatOptions, Row, RowError, RowSerde
from headwater.sql.formats.registry.codec import Codec, Unsupported
from headwater.sql.formats.registry.port import Schemas
from headwater.sql.language import types
from headwater.sql.language.errors import RegistryMissingError, SqlError
from headwater.sql.language.types import Type
from headwater.sql.values import EvaluationError

READERS_KEPT: Final = 1_000  # schemas that one topic's rows were written with
KEY_COLUMN: Final = "ROWKEY"
VALUE_COLUMN: Final = "ROWVAL"


class RegistryFormat:
    """`framed`: the schema's id stands before the data. `make` gives the codec when it is first needed: most servers
    start without a schema, and the three codecs take a good part of that time.
    """

    def __init__(self, name: str, make: Callable[[], Codec], *, framed: bool = True) -> None:
        self.name = name
        self.framed = framed
        self._make = make

    @functools.cached_property
    def codec(self) -> Codec:
        return self._make()

    def check(self, fields: Sequence[Field], /) -> None:
        for each in fields:
            _check_maps(each.type, self.name)
        if fields:
            self.parsed(fields, FormatOptions(wrap_single=True))

    def parsed(self, fields: Sequence[Field], options: FormatOptions) -> ParsedSchema:
        """The schema that is made of the columns. Raises SqlError where they have none."""
        made = self.codec.schema(fields, wrapped=self.wraps(fields, options), options=options)
        try:
            return parse(made.schema_type, made.text)
        except SchemaError as error:
            raise SqlError(f"Schema is not compatible with {self.name}: {error}") from None

    def wraps(self, fields: Sequence[Field], options: FormatOptions) -> bool:
        return not self.codec.can_unwrap or options.wrap_single or len(fields) != 1

    def serde(self, fields: Sequence[Field], options: FormatOptions, /) -> RowSerde:
        if options.subject is None and self.framed:
            return ROWS
        return RegistrySerde(self, fields, options)

    def inferred(self, schema: ParsedSchema, options: FormatOptions, *, key: bool) -> list[Field]:
        """The columns of a registered schema. Names are upper-cased unless the schema was named by its id. Raises
        SqlError.
        """
        if schema.schema_type is not self.codec.schema_type:
            raise SqlError(f"The schema is {schema.schema_type}, and the format is {self.name}.")
        single = (KEY_COLUMN if key else VALUE_COLUMN) if self.codec.can_unwrap and not options.wrap_single else None
        try:
            return self.codec.columns(
                schema, single=single, upper=options.schema_id is None, full_name=options.full_name
            )
        except (Unsupported, types.NoSuchType) as error:
            raise SqlError(f"Unsupported type at root of schema: {error}") from None
        except RecursionError:
            raise SqlError("The schema contains itself: SQL has no such type.") from None


class RegistrySerde:
    """Compiled functions by schema; a serde belongs to one task."""

    def __init__(self, format_: RegistryFormat, fields: Sequence[Field], options: FormatOptions) -> None:
        self.name = format_.name
        self._format = format_
        self._fields = list(fields)
        self._options = options
        self._wrapped = format_.wraps(fields, options)
        self._readers: dict[tuple[int, tuple[int, ...]], Callable[[bytes], Row | None]] = {}
        self._writer: tuple[bytes, Callable[[Row], bytes]] | None = None

    def serialize(self, value: Row) -> bytes:
        if self._writer is None:
            self._writer = self.prepare()
        prefix, encode = self._writer
        try:
            return prefix + encode(value)
        except (DataError, EvaluationError) as error:
            raise RowError(f"cannot be written as {self.name}: {error}") from None

    def deserialize(self, data: bytes) -> Row:
        codec = self._format.codec
        try:
            if self._format.framed:
                found, begin = read_schema_id(bytes(data), protobuf=codec.schema_type == "PROTOBUF")
                if found.id is None:
                    raise DataError("the schema is named by a guid, which is not known here")
                read = self._reader(found.id, found.message_indexes)
                row = read(bytes(data[begin:]))
            else:
                row = self._reader(0, (0,))(bytes(data))
        except (DataError, EvaluationError, SchemaError, RecursionError) as error:
            raise RowError(f"is no {self.name} row: {error}") from None
        return [None] * len(self._fields) if row is None else row

    def prepare_known(self) -> bool:
        """Makes ready to write rows as others do, with a schema that the registry has; False where it has none that
        fits. Registers nothing.
        """
        options = self._options
        try:
            if self._format.framed and options.schema_id is None:
                latest = None if options.subject is None else self._schemas.latest(options.subject)
                if latest is None or not self._fits(latest.schema):
                    return False
            self._writer = self.prepare()
        except SqlError:
            return False
        return True

    def prepare(self) -> tuple[bytes, Callable[[Row], bytes]]:
        """What rows are written with; registers the schema, if it is not there. Raises SqlError."""
        codec, options = self._format.codec, self._options
        if not self._format.framed:
            schema, number = self._format.parsed(self._fields, options), None
        elif options.schema_id is not None:
            found, number = self._schemas.by_id(options.schema_id), options.schema_id
            if found is None:
                raise SqlError(f"There is no schema with the id {number}.")
            schema = found
        else:
            schema, number = self._own()
        encode, indexes = codec.writer(schema, self._fields, wrapped=self._wrapped, full_name=options.full_name)
        return (b"" if number is None else SchemaId(number, None, indexes).prefix()), encode

    def _own(self) -> tuple[ParsedSchema, int]:
        subject = self._options.subject
        assert subject is not None
        latest = self._schemas.latest(subject)
        if latest is not None and self._fits(latest.schema):
            return latest.schema, latest.id
        made = self._format.codec.schema(self._fields, wrapped=self._wrapped, options=self._options)
        registered = self._schemas.register(subject, made)
        return registered.schema, registered.id

    def _fits(self, schema: ParsedSchema) -> bool:
        """Whether the schema has exactly our columns."""
        if schema.schema_type is not self._format.codec.schema_type:
            return False
        full_name = self._options.full_name
        has_several = schema.schema_type is SchemaType.PROTOBUF  # messages, of which `columns` looks for ours
        if full_name is not None and schema.name not in (None, full_name) and not has_several:
            return False
        single = None if self._wrapped else self._fields[0].name
        try:
            found = self._format.codec.columns(schema, single=single, upper=False, full_name=full_name)
        except (SqlError, Unsupported, types.NoSuchType, RecursionError):
            return False
        return [_folded(each) for each in found] == [_folded(each) for each in self._fields]

    @property
    def _schemas(self) -> Schemas:
        schemas = self._options.schemas
        if schemas is None:
            raise RegistryMissingError(
                f"The format {self.name} needs a schema registry.", hint="Set ksql.schema.registry.url for the server."
            )
        return schemas

    def _reader(self, schema_id: int, indexes: tuple[int, ...]) -> Callable[[bytes], Row | None]:
        known = self._readers.get((schema_id, indexes))
        if known is not None:
            return known
        if self._format.framed:
            schema = self._schemas.by_id(schema_id)
            if schema is None:
                raise DataError(f"the registry has no schema with the id {schema_id}")
            if schema.schema_type is not self._format.codec.schema_type:
                raise DataError(f"the schema {schema_id} is {schema.schema_type}")
        else:
            schema = self._format.parsed(self._fields, self._options)
        if len(self._readers) >= READERS_KEPT:
            self._readers.clear()
        made = self._format.codec.reader(schema, self._fields, wrapped=self._wrapped, indexes=indexes or (0,))
        self._readers[schema_id, indexes] = made
        return made


def _check_maps(given: Type, format_name: str) -> None:
    if isinstance(given, types.MapType):
        if given.key != types.STRING:
            raise SqlError(
                {
                    "AVRO": "Avro only supports MAPs with STRING keys",
                    "JSON_SR": "JSON only supports MAP types with STRING keys",
                }.get(format_name, f"{format_name} format only supports MAP types with STRING keys")
            )
        _check_maps(given.value, format_name)
    elif isinstance(given, types.ArrayType):
        _check_maps(given.item, format_name)
    elif isinstance(given, types.StructType):
        for _, each in given.fields:
            _check_maps(each, format_name)


def _folded(field: Field) -> tuple[str, Type]:
    return field.name.upper(), _folded_type(field.type)


def _folded_type(given: Type) -> Type:
    """Without the case of the names in it."""
    if isinstance(given, types.ArrayType):
        return types.array(_folded_type(given.item))
    if isinstance(given, types.MapType):
        return types.mapping(_folded_type(given.key), _folded_type(given.value))
    if isinstance(given, types.StructType):
        return types.struct(*((name.upper(), _folded_type(each)) for name, each in given.fields))
    return given


def _avro() -> Codec:
    from headwater.sql.formats.registry.avro_rows import AvroCodec

    return AvroCodec()


def _json_schema() -> Codec:
    from headwater.sql.formats.registry.json_schema_rows import JsonSchemaCodec

    return JsonSchemaCodec()


def _protobuf() -> Codec:
    from headwater.sql.formats.registry.protobuf_rows import ProtobufCodec

    return ProtobufCodec()


AVRO: Final = RegistryFormat("AVRO", _avro)
JSON_SR: Final = RegistryFormat("JSON_SR", _json_schema)
PROTOBUF: Final = RegistryFormat("PROTOBUF", _protobuf)
PROTOBUF_NOSR: Final = RegistryFormat("PROTOBUF_NOSR", _protobuf, framed=False)
