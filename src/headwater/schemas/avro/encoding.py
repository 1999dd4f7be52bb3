"""Avro's binary encoding, from Python's values. A schema is compiled once to functions, one for each type; they append
to one buffer.

A union takes the first branch that its value fits, one that keeps all of it if there is one; among records, the one
with the most fields named. A pair (name, value) says the branch itself. Pure; whoever compiles owns the functions.
"""

import datetime
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.schemas.avro.defaults import default_problem
from headwater.schemas.avro.logical import to_stored
from headwater.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from headwater.schemas.model import DataError, SchemaError

Write = Callable[[bytearray, Any], None]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def compile_writer(avro_type: AvroType) -> Callable[[Any], bytes]:
    write = _Compiler().writer(avro_type)

    def encode(value: Any) -> bytes:
        out = bytearray()
        try:
            write(out, value)
        except RecursionError as error:
            raise DataError("the value is nested too deep, or within itself") from error
        return bytes(out)

    return encode


def write_long(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, Write] = {}

    def writer(self, avro_type: AvroType) -> Write:
        write = self._plain(avro_type)
        convert = to_stored(avro_type)
        if convert is None:
            return write

        def write_converted(out: bytearray, value: Any) -> None:
            write(out, convert(value))

        return write_converted

    def _plain(self, avro_type: AvroType) -> Write:
        if isinstance(avro_type, Record):
            return self._record(avro_type)
        if isinstance(avro_type, Union):
            return self._union(avro_type)
        if isinstance(avro_type, Array):
            return self._array(avro_type)
        if isinstance(avro_type, Map):
            return self._map(avro_type)
        if isinstance(avro_type, Enum):
            return _enum(avro_type)
        if isinstance(avro_type, Fixed):
            return _fixed(avro_type)
        return _PRIMITIVES[avro_type.kind]

    def _record(self, record: Record) -> Write:
        known = self._named.get(record.name)
        if known is not None:
            return known
        fields: list[tuple[str, Write, bytes | None]] = []  # the last is the default

        def write(out: bytearray, value: Any) -> None:
            if not isinstance(value, Mapping):
                raise DataError(f"{_shown(value)} is not a mapping with the fields of {record.name}")
            for name, write_field, default in fields:
                try:
                    if name in value:
                        write_field(out, value[name])
                    elif default is not None:
                        out += default
                    else:
                        raise DataError("the field is missing, and has no default")
                except DataError as error:
                    raise _at(name, error) from error

        self._named[record.name] = write
        for each in record.fields:
            write_field = self.writer(each.type)
            fields.append((each.name, write_field, None))
        for index, each in enumerate(record.fields):
            if each.has_default and default_problem(each.type, each.default) is None:
                fields[index] = (*fields[index][:2], encoded_default(each))
        return write

    def _array(self, array: Array) -> Write:
        write_item = self.writer(array.items)

        def write(out: bytearray, value: Any) -> None:
            if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
                raise DataError(f"{_shown(value)} is not a list")
            items = value if isinstance(value, list | tuple) else list(value)
            if items:
                write_long(out, len(items))
                for index, item in enumerate(items):
                    try:
                        write_item(out, item)
                    except DataError as error:
                        raise _at(str(index), error) from error
            out.append(0)

        return write

    def _map(self, avro_map: Map) -> Write:
        write_value = self.writer(avro_map.values)

        def write(out: bytearray, value: Any) -> None:
            if not isinstance(value, Mapping):
                raise DataError(f"{_shown(value)} is not a mapping")
            if value:
                write_long(out, len(value))
                for key, item in value.items():
                    try:
                        _string(out, key)
                        write_value(out, item)
                    except DataError as error:
                        raise _at(str(key)[:50], error) from error
            out.append(0)

        return write

    def _union(self, union: Union) -> Write:
        writers = [self.writer(branch) for branch in union.branches]

        def write(out: bytearray, value: Any) -> None:
            index, value = choose(union, value)
            write_long(out, index)
            writers[index](out, value)

        if len(union.branches) != 2 or union.branches[0].kind != "null":
            return write
        inner = writers[1]

        def write_nullable(out: bytearray, value: Any) -> None:
            if value is None:
                out.append(0)
            elif isinstance(value, tuple):
                write(out, value)
            else:
                out.append(2)
                inner(out, value)

        return write_nullable


def _at(name: str, error: DataError) -> DataError:
    return DataError(f"{name}: {error}")


def choose(union: Union, value: Any) -> tuple[int, Any]:
    """The branch for a value, and the value without a name that came with it."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        for index, branch in enumerate(union.branches):
            if value[0] == (branch.name if isinstance(branch, Named) else branch.kind):
                return index, value[1]
    index = _first(union, value, exact=True)
    if index < 0:
        index = _first(union, value, exact=False)
    if index < 0:
        raise DataError(
            f"{_shown(value)} fits no branch of the union of {', '.join(branch.label for branch in union.branches)}"
        )
    return index, value


def _first(union: Union, value: Any, *, exact: bool) -> int:
    best, most = -1, -1
    for index, branch in enumerate(union.branches):
        if isinstance(branch, Record):
            if isinstance(value, Mapping) and fits(branch, value):
                count = sum(name in value for name in branch.by_name)
                if count > most:
                    best, most = index, count
        elif best < 0 and fits(branch, value) and (not exact or _keeps(branch, value)):
            return index
    return best


def _keeps(branch: AvroType, value: Any) -> bool:
    """Whether it is the same value that will be read: a float may be another number, and a date has no time."""
    if isinstance(value, datetime.datetime):
        return branch.properties.get("logicalType") != "date"
    if branch.kind not in ("float", "double"):
        return True
    form = _FLOAT if branch.kind == "float" else _DOUBLE
    try:
        return bool(value != value or form.unpack(form.pack(value))[0] == value)
    except (struct.error, OverflowError):
        return False


def fits(avro_type: AvroType, value: Any) -> bool:
    """Whether a branch of a union takes this value, as far as must be looked to tell branches apart."""
    convert = to_stored(avro_type)
    if convert is not None:
        try:
            value = convert(value)
        except DataError:
            return False
    if isinstance(avro_type, Record):
        return isinstance(value, Mapping) and all(
            fits(each.type, value[each.name]) if each.name in value else each.has_default for each in avro_type.fields
        )
    if isinstance(avro_type, Union):
        return any(fits(branch, value) for branch in avro_type.branches)
    if isinstance(avro_type, Array):
        return isinstance(value, list | tuple) and all(fits(avro_type.items, item) for item in value)
    if isinstance(avro_type, Map):
        return isinstance(value, Mapping) and all(
            isinstance(k, str) and fits(avro_type.values, v) for k, v in value.items()
        )
    if isinstance(avro_type, Enum):
        return isinstance(value, str) and value in avro_type.symbol_set
    if isinstance(avro_type, Fixed):
        return isinstance(value, bytes | bytearray) and len(value) == avro_type.size
    return _FITS[avro_type.kind](value)


_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31,
    "long": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63,
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "double": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "bytes": lambda value: isinstance(value, bytes | bytearray | memoryview),
    "string": lambda value: isinstance(value, str),
}


def _null(out: bytearray, value: Any) -> None:
    del out
    if value is not None:
        raise DataError(f"{_shown(value)} is not null")


def _boolean(out: bytearray, value: Any) -> None:
    if not isinstance(value, bool):
        raise DataError(f"{_shown(value)} is not true or false")
    out.append(value)


def _integer(bits: int, name: str) -> Write:
    limit = 1 << (bits - 1)

    def write(out: bytearray, value: Any) -> None:
        if type(value) is not int and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise DataError(f"{_shown(value)} is not a whole number")
        number = value.__index__()
        if not -limit <= number < limit:
            raise DataError(f"{number} does not fit {name}")
        write_long(out, number)

    return write


def _floating(form: struct.Struct) -> Write:
    def write(out: bytearray, value: Any) -> None:
        try:
            out += form.pack(value)
        except (struct.error, OverflowError, TypeError) as error:
            raise DataError(f"{_shown(value)} is not a number that fits") from error

    return write


def _bytes(out: bytearray, value: Any) -> None:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"{_shown(value)} is not bytes")
    write_long(out, len(value))
    out += value


def _string(out: bytearray, value: Any) -> None:
    if not isinstance(value, str):
        raise DataError(f"{_shown(value)} is not text")
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{_shown(value)} cannot be written as UTF-8") from error
    write_long(out, len(data))
    out += data


def _enum(enum: Enum) -> Write:
    indexes = {symbol: index for index, symbol in enumerate(enum.symbols)}

    def write(out: bytearray, value: Any) -> None:
        index = indexes.get(value) if isinstance(value, str) else None
        if index is None:
            raise DataError(f"{_shown(value)} is not a symbol of {enum.name}")
        write_long(out, index)

    return write


def _fixed(fixed: Fixed) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview) or len(value) != fixed.size:
            raise DataError(f"{_shown(value)} is not {fixed.size} bytes")
        out += value

    return write


_PRIMITIVES: Final[dict[str, Write]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32, "int"),
    "long": _integer(64, "long"),
    "float": _floating(_FLOAT),
    "double": _floating(_DOUBLE),
    "bytes": _bytes,
    "string": _string,
}


def encoded_default(field: Field) -> bytes:
    """Raises SchemaError if it does not fit: who registered the schema may not have looked."""
    problem = default_problem(field.type, field.default)
    if problem is not None:
        raise SchemaError(f"the default of the field {_shown(field.name)} does not fit its type: {problem}")
    encoded = bytearray()
    write_default(field.type, field.default, encoded)
    return bytes(encoded)


def write_default(avro_type: AvroType, value: Any, out: bytearray) -> None:
    """A default, as it stands in a schema, in the binary encoding."""
    if isinstance(avro_type, Union):
        index = next(at for at, branch in enumerate(avro_type.branches) if default_problem(branch, value) is None)
        write_long(out, index)
        write_default(avro_type.branches[index], value, out)
    elif isinstance(avro_type, Record):
        for each in avro_type.fields:
            write_default(each.type, value.get(each.name, each.default), out)
    elif isinstance(avro_type, Array | Map):
        entries = list(value.items()) if isinstance(avro_type, Map) else [("", item) for item in value]
        inner = avro_type.values if isinstance(avro_type, Map) else avro_type.items
        if entries:
            write_long(out, len(entries))
        for key, item in entries:
            if isinstance(avro_type, Map):
                _string(out, key)
            write_default(inner, item, out)
        out.append(0)
    elif isinstance(avro_type, Enum):
        write_long(out, avro_type.symbols.index(value))
    elif isinstance(avro_type, Fixed):
        out += value.encode("latin-1")
    elif avro_type.kind == "bytes":
        _bytes(out, value.encode("latin-1"))
    elif avro_type.kind in ("float", "double"):
        _PRIMITIVES[avro_type.kind](out, float(value))
    else:
        _PRIMITIVES[avro_type.kind](out, value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
