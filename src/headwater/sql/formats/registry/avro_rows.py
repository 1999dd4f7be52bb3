"""AVRO: columns out of an Avro schema, a schema out of columns, and rows by either.

The schemas that are made are ksqlDB's to the letter, so that a topic of ksqlDB gets no second version: a record
`io.confluent.ksql.avro_schemas.KsqlDataSourceSchema`, or `<Source>Key` for keys, every field NULL or its type; a MAP is
an array of entries, for its keys may be NULL; Connect's names and versions stand with all types that it has a name for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.avro.types import Array, AvroType, Map, Record, Union, logical_type
from headwater.sql.coercion import reading, row_reader
from headwater.sql.formats.port import Field, FormatOptions, Row
from headwater.sql.formats.registry.codec import Unsupported, name_of
from headwater.sql.formats.registry.port import AVRO_NAMESPACE
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type

RECORD_NAME: Final = f"{AVRO_NAMESPACE}.KsqlDataSourceSchema"
_PLAIN: Final = {
    Base.BOOLEAN: "boolean",
    Base.INTEGER: "int",
    Base.BIGINT: "long",
    Base.DOUBLE: "double",
    Base.STRING: "string",
    Base.BYTES: "bytes",
}
_CONNECT: Final = "org.apache.kafka.connect.data"
_LOGICAL: Final = {
    Base.DATE: ("int", "Date", "date"),
    Base.TIME: ("int", "Time", "time-millis"),
    Base.TIMESTAMP: ("long", "Timestamp", "timestamp-millis"),
}
_COLUMN_TYPES: Final = {
    "boolean": types.BOOLEAN, "int": types.INTEGER, "long": types.BIGINT, "float": types.DOUBLE, "double": types.DOUBLE,
    "string": types.STRING, "bytes": types.BYTES, "enum": types.STRING, "fixed": types.BYTES,
}  # fmt: skip
_LOGICAL_COLUMNS: Final = {
    "date": types.DATE, "time-millis": types.TIME, "timestamp-millis": types.TIMESTAMP, "uuid": types.STRING,
    "timestamp-micros": types.BIGINT, "time-micros": types.BIGINT,
}  # fmt: skip


class AvroCodec:
    schema_type = SchemaType.AVRO
    can_unwrap = True

    def schema(self, fields: Sequence[Field], *, wrapped: bool, options: FormatOptions) -> StoredSchema:
        name = options.full_name or options.record_name or RECORD_NAME
        if wrapped:
            shown: Any = _record(fields, name)
        else:
            shown = _shown(fields[0].type, name)
        return StoredSchema(json.dumps(shown, separators=(",", ":")), SchemaType.AVRO)

    def columns(self, schema: ParsedSchema, *, single: str | None, upper: bool, full_name: str | None) -> list[Field]:
        del full_name  # a schema of Avro is one type
        assert isinstance(schema, AvroSchema)
        root = _without_null(schema.root)
        if single is not None:
            return [Field(single, _column_type(root, upper))]
        if not isinstance(root, Record):
            raise SqlError(
                "Schema returned from schema registry is anonymous type.",
                hint="To use this schema, set 'WRAP_SINGLE_VALUE=false' in the WITH clause properties.",
            )
        return record_fields(root, upper)

    def reader(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, indexes: tuple[int, ...]
    ) -> Callable[[bytes], Row | None]:
        del indexes
        assert isinstance(schema, AvroSchema)
        decode = compile_reader(schema.root)
        if wrapped:
            convert = row_reader([(each.name, each.type) for each in fields])
            return lambda data: _row(decode(data), convert)
        single = reading(fields[0].type)
        return lambda data: [single(decode(data))]

    def writer(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, full_name: str | None
    ) -> tuple[Callable[[Row], bytes], tuple[int, ...]]:
        del full_name
        assert isinstance(schema, AvroSchema)
        encode = compile_writer(schema.root)
        if wrapped:
            row_type = types.struct(*((each.name, each.type) for each in fields))
            convert = writing(row_type, schema.root)
            names = [each.name for each in fields]
            return lambda row: encode(convert(dict(zip(names, row, strict=True)))), ()
        single = writing(fields[0].type, schema.root)
        return lambda row: encode(single(row[0])), ()


def _row(value: Any, convert: Callable[[Any], Row]) -> Row | None:
    return None if value is None else convert(value)


# -- columns out of a schema -------------------------------------------------------------------------------------------


def _without_null(given: AvroType) -> AvroType:
    """What a union of null and one other type is about."""
    if isinstance(given, Union):
        others = [each for each in given.branches if each.kind != "null"]
        if len(others) == 1:
            return others[0]
    return given


def record_fields(record: Record, upper: bool) -> list[Field]:
    found = []
    for each in record.fields:
        try:
            found.append(Field(name_of(each.name, upper), _column_type(each.type, upper)))
        except (Unsupported, types.NoSuchType):
            continue  # as ksqlDB: a field of a type that SQL does not have is no column
    if not found:
        raise SqlError("Schema does not include any columns with types that ksqlDB supports.")
    return found


def _column_type(given: AvroType, upper: bool) -> Type:
    given = _without_null(given)
    logical = logical_type(given)
    if logical is not None:
        if logical.name == "decimal":
            return types.decimal(logical.precision, logical.scale)
        if logical.name in _LOGICAL_COLUMNS:
            return _LOGICAL_COLUMNS[logical.name]
    if given.properties.get("logicalType") == "decimal" and "precision" not in given.properties:
        return types.decimal(64, int(given.properties.get("scale", 0)))  # Connect's own default
    if isinstance(given, Array):
        entry = _entry(given)
        if entry is not None:
            key, value = entry
            return types.mapping(types.STRING if key.base is not Base.STRING else key, value)
        return types.array(_column_type(given.items, upper))
    if isinstance(given, Map):
        return types.mapping(types.STRING, _column_type(given.values, upper))
    if isinstance(given, Record):
        return types.struct(*((each.name, each.type) for each in record_fields(given, upper)))
    if isinstance(given, Union):  # as Connect has it: a struct with a field for each branch
        branches = [each for each in given.branches if each.kind != "null"]
        return types.struct(*((name_of(_branch(each), upper), _column_type(each, upper)) for each in branches))
    found = _COLUMN_TYPES.get(given.kind)
    if found is None:
        raise Unsupported(given.kind)
    return found


def _branch(given: AvroType) -> str:
    return given.label.rpartition(" ")[2].rpartition(".")[2]


def _entry(given: Array) -> tuple[Type, Type] | None:
    """Key and value, where the items are the entries of a map."""
    items = given.items
    if not isinstance(items, Record) or [each.name for each in items.fields] != ["key", "value"]:
        return None
    marked = "MapEntry" in (
        given.properties.get("connect.internal.type"),
        items.properties.get("connect.internal.type"),
    )
    if not marked and items.simple_name != "MapEntry":
        return None
    key, value = (_column_type(each.type, upper=True) for each in items.fields)
    return key, value


# -- a schema out of columns -------------------------------------------------------------------------------------------


def _record(fields: Sequence[Field], name: str) -> dict[str, Any]:
    shown = [_field(each.name, each.type, f"{name}_{each.name}") for each in fields]
    return {**_named(name), "fields": shown, "connect.name": name}


def _named(name: str) -> dict[str, Any]:
    space, _, simple = name.rpartition(".")
    return {"type": "record", "name": simple, **({"namespace": space} if space else {})}


def _field(name: str, given: Type, record_name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", _shown(given, record_name)], "default": None}


def _shown(given: Type, name: str) -> Any:
    """`name`: of the record that it is, where it is one."""
    if given.base in _PLAIN:
        return _PLAIN[given.base]
    if given.base in _LOGICAL:
        kind, class_name, logical = _LOGICAL[given.base]
        return {"type": kind, **_connect(class_name), "logicalType": logical}
    if isinstance(given, DecimalType):
        parameters = {"scale": str(given.scale), "connect.decimal.precision": str(given.precision)}
        return {
            "type": "bytes",
            "scale": given.scale,
            "precision": given.precision,
            **_connect("Decimal", parameters),
            "logicalType": "decimal",
        }
    if isinstance(given, ArrayType):
        return {"type": "array", "items": ["null", _shown(given.item, name)]}
    if isinstance(given, MapType):
        fields = [_field("key", given.key, f"{name}_MapKey"), _field("value", given.value, f"{name}_MapValue")]
        items = {**_named(name), "fields": fields, "connect.internal.type": "MapEntry"}
        return {"type": "array", "items": items, "connect.name": name}
    assert isinstance(given, StructType)
    return _record([Field(each, inner) for each, inner in given.fields], name)


def _connect(class_name: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What Connect's own converter says of its logical types, in its order."""
    return {
        "connect.version": 1,
        **({"connect.parameters": parameters} if parameters else {}),
        "connect.name": f"{_CONNECT}.{class_name}",
    }


# -- values for a schema -----------------------------------------------------------------------------------------------

Convert = Callable[[Any], Any]


def writing(given: Type, wanted: AvroType) -> Convert:
    """A value of SQL's type as Avro's encoder takes it for this schema."""
    inner = _writing(given, _without_null(wanted))
    return lambda value: None if value is None else inner(value)


def _writing(given: Type, wanted: AvroType) -> Convert:
    if isinstance(given, ArrayType) and isinstance(wanted, Array):
        item = writing(given.item, wanted.items)
        return lambda value: [item(each) for each in value]
    if isinstance(given, MapType):
        if isinstance(wanted, Array) and isinstance(wanted.items, Record):
            entry = wanted.items.by_name or {each.name: each for each in wanted.items.fields}
            key, item = writing(given.key, entry["key"].type), writing(given.value, entry["value"].type)
            return lambda value: [{"key": key(name), "value": item(each)} for name, each in value.items()]
        if isinstance(wanted, Map):
            item = writing(given.value, wanted.values)
            return lambda value: {str(name): item(each) for name, each in value.items()}
    if isinstance(given, StructType) and isinstance(wanted, Record):
        return _struct_writing(given, wanted)
    return lambda value: value


def _struct_writing(given: StructType, wanted: Record) -> Convert:
    by_upper = {each.name.upper(): each for each in wanted.fields}
    exact = {each.name: each for each in wanted.fields}
    pairs: list[tuple[str, str, Convert, bool]] = []
    for name, inner in given.fields:
        found = exact.get(name) or by_upper.get(name.upper())
        if found is not None:
            pairs.append(
                (name, found.name, writing(inner, found.type), found.has_default and not _takes_null(found.type))
            )

    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        """A NULL for a field that has none, but a default, is the default."""
        return {
            target: write(value.get(name))
            for name, target, write, defaults in pairs
            if not (defaults and value.get(name) is None)
        }

    return convert


def _takes_null(given: AvroType) -> bool:
    return given.kind == "null" or (isinstance(given, Union) and any(each.kind == "null" for each in given.branches))
