"""Avro's binary encoding, to Python's values: from the writer's schema to the reader's, by Avro's rules of resolution.

Two schemas are compiled once to functions, one for each pair of types: (bytes, position) -> (value, position). Bytes
come from peers: a length is looked at before it is used, and what takes no bytes is counted. Pure; whoever compiles
owns the functions.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from headwater.schemas.avro.compatibility import PROMOTIONS, differences
from headwater.schemas.avro.encoding import encoded_default
from headwater.schemas.avro.logical import from_stored
from headwater.schemas.avro.resolution import Resolution
from headwater.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from headwater.schemas.model import DataError, SchemaError, Sides

Read = Callable[[bytes, int], tuple[Any, int]]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_ITEMS_WITHOUT_BYTES_MAX: Final = 100_000


def compile_reader(writer: AvroType, reader: AvroType | None = None, *, stored: bool = False) -> Callable[[bytes], Any]:
    """Raises SchemaError where the reader's schema reads nothing of the writer's. `stored`: values of logical types
    stay as they are stored, and in unions of more than null and one type they come with the name of their branch, as
    the encoder takes them.
    """
    reader = writer if reader is None else reader
    if reader is not writer:
        require_readable(writer, reader)
    read = _Compiler(stored).reader(writer, reader)

    def decode(data: bytes) -> Any:
        try:
            value, end = read(data, 0)
        except (IndexError, struct.error) as error:
            raise DataError("the bytes end too early") from error
        except RecursionError as error:
            raise DataError("the bytes are nested too deep") from error
        if end != len(data):
            raise DataError(f"{len(data) - end} bytes are left behind the value")
        return value

    return decode


def require_readable(writer: AvroType, reader: AvroType) -> None:
    """Raises SchemaError where the reader's schema reads nothing of the writer's."""
    if isinstance(writer, Union) or Resolution().reads_some(reader, writer):  # a union is decided by each value
        return
    found = differences(reader, writer, Sides())
    raise SchemaError(f"the reader's schema cannot read what was written: {found[0].message}")


def read_long(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise DataError("a number has more than ten bytes")
    return (value >> 1) ^ -(value & 1), position


class _Compiler:
    """`passes_over`: nobody reads the values, so that text need not be text."""

    def __init__(self, stored: bool, passes_over: bool = False) -> None:
        self._records: dict[tuple[int, int], list[Read]] = {}
        self._resolution = Resolution()
        self._stored = stored
        self._text: Read = _bytes if passes_over else _string
        self._skipping = self if passes_over else _Compiler(stored=True, passes_over=True)

    def reader(self, writer: AvroType, reader: AvroType) -> Read:
        read = self._plain(writer, reader)
        convert = None if self._stored or isinstance(reader, Union) else from_stored(reader)
        if convert is None:
            return read
        promoted = convert

        def read_converted(data: bytes, position: int) -> tuple[Any, int]:
            value, position = read(data, position)
            return promoted(value), position

        return read_converted

    def _plain(self, writer: AvroType, reader: AvroType) -> Read:
        if isinstance(writer, Union):
            return self._writer_union(writer, reader)
        if isinstance(reader, Union):
            branch = matching_branch(reader, writer, self._resolution)
            return (
                self._branch(self.reader(writer, branch), reader, branch)
                if branch is not None
                else _refusing(writer, reader)
            )
        if not self._resolution.reads_some(reader, writer):
            return _refusing(writer, reader)
        if isinstance(writer, Record) and isinstance(reader, Record):
            return self._record(writer, reader)
        if isinstance(writer, Array) and isinstance(reader, Array):
            return self._array(self.reader(writer.items, reader.items))
        if isinstance(writer, Map) and isinstance(reader, Map):
            return self._map(self.reader(writer.values, reader.values))
        if isinstance(writer, Enum) and isinstance(reader, Enum):
            return _enum(writer, reader)
        if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size == reader.size:
            return _fixed(writer.size)
        if writer.kind == reader.kind == "string":
            return self._text
        if writer.kind == reader.kind and writer.kind in _PRIMITIVES:
            return _PRIMITIVES[writer.kind]
        if writer.kind in PROMOTIONS.get(reader.kind, ()):
            return _promoted(writer.kind, reader.kind)
        return _refusing(writer, reader)

    def _writer_union(self, writer: Union, reader: AvroType) -> Read:
        if isinstance(reader, Union) and reader is writer:
            branches = [self._branch(self.reader(branch, branch), writer, branch) for branch in writer.branches]
        else:
            branches = [self.reader(branch, reader) for branch in writer.branches]

        def read(data: bytes, position: int) -> tuple[Any, int]:
            index, position = read_long(data, position)
            if not 0 <= index < len(branches):
                raise DataError(f"the union has no branch {index}")
            return branches[index](data, position)

        return read

    def _branch(self, read: Read, union: Union, branch: AvroType) -> Read:
        if not self._stored or branch.kind == "null" or sum(each.kind != "null" for each in union.branches) == 1:
            return read
        name = branch.name if isinstance(branch, Named) else branch.kind

        def read_named(data: bytes, position: int) -> tuple[Any, int]:
            value, position = read(data, position)
            return (name, value), position

        return read_named

    def _record(self, writer: Record, reader: Record) -> Read:
        pair = (id(writer), id(reader))
        made = self._records.get(pair)
        if made is None:
            made = self._records[pair] = []
            made.append(self._record_reader(writer, reader))
        if made:
            return made[0]
        waiting = made  # within itself: it is there when the first value is read

        def read(data: bytes, position: int) -> tuple[Any, int]:
            return waiting[0](data, position)

        return read

    def _record_reader(self, writer: Record, reader: Record) -> Read:
        of_writer: dict[str, Field] = {}
        for field in reader.fields:
            names = [name for name in (field.name, *field.aliases) if name in writer.by_name]
            if names:
                of_writer[names[0]] = field
        steps: list[tuple[str | None, str, Read]] = []
        for field in writer.fields:
            target = of_writer.get(field.name)
            if target is None:
                steps.append((None, field.name, self._skipping.reader(field.type, field.type)))
            else:
                steps.append((target.name, field.name, self.reader(field.type, target.type)))
        written = {target.name for target in of_writer.values()}
        defaults = [(field.name, self._default(field)) for field in reader.fields if field.name not in written]
        in_order = [name for name, _, _ in steps if name is not None] + [name for name, _ in defaults]
        order = [field.name for field in reader.fields]

        def read(data: bytes, position: int) -> tuple[Any, int]:
            values: dict[str, Any] = {}
            for name, own_name, read_field in steps:
                try:
                    value, position = read_field(data, position)
                except DataError as error:
                    raise DataError(f"{own_name}: {error}") from error
                if name is not None:
                    values[name] = value
            for name, default in defaults:
                values[name] = default()
            return (values if in_order == order else {name: values[name] for name in order}), position

        return read

    def _default(self, field: Field) -> Callable[[], Any]:
        """Read from its own encoding each time, so that nobody shares a list."""
        data = encoded_default(field)
        read = self.reader(field.type, field.type)
        return lambda: read(data, 0)[0]

    def _array(self, read_item: Read) -> Read:
        def read(data: bytes, position: int) -> tuple[Any, int]:
            items: list[Any] = []
            while True:
                count, position = _block(data, position)
                if count == 0:
                    return items, position
                start = position
                for done in range(count):
                    value, position = read_item(data, position)
                    items.append(value)
                    if position == start and done > _ITEMS_WITHOUT_BYTES_MAX:
                        raise DataError("a list has too many items that take no bytes")

        return read

    def _map(self, read_value: Read) -> Read:
        read_key = self._text

        def read(data: bytes, position: int) -> tuple[Any, int]:
            entries: dict[Any, Any] = {}
            while True:
                count, position = _block(data, position)
                if count == 0:
                    return entries, position
                for _ in range(count):
                    key, position = read_key(data, position)
                    entries[key], position = read_value(data, position)

        return read


def matching_branch(reader: Union, writer: AvroType, resolution: Resolution) -> AvroType | None:
    """The branch of the reader's union that takes what was written: the same type first, then one that it can
    become; at last one that reads some of its values.
    """
    for branch in reader.branches:
        same = branch.kind == writer.kind
        if same and isinstance(branch, Named) and isinstance(writer, Named):
            same = branch.name == writer.name or writer.name in branch.aliases
        if same and not differences(branch, writer, Sides()):
            return branch
    for branch in reader.branches:
        if not differences(branch, writer, Sides()):
            return branch
    return next((branch for branch in reader.branches if resolution.reads_some(branch, writer)), None)


def _refusing(writer: AvroType, reader: AvroType) -> Read:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        del data, position
        raise DataError(f"what was written as {writer.label} cannot be read as {reader.label}")

    return read


def _block(data: bytes, position: int) -> tuple[int, int]:
    count, position = read_long(data, position)
    if count < 0:
        size, position = read_long(data, position)
        count = -count
        if not 0 <= size <= len(data) - position:
            raise DataError("a block is longer than the bytes that are there")
    if count > len(data) - position and count > _ITEMS_WITHOUT_BYTES_MAX:
        raise DataError(f"{count} items are more than the bytes that are there")
    return count, position


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = read_long(data, position)
    end = position + length
    if not position <= end <= len(data):
        raise DataError(f"a length of {length} is beyond the bytes that are there")
    return data[position:end], end


def _string(data: bytes, position: int) -> tuple[str, int]:
    value, position = _bytes(data, position)
    try:
        return value.decode(), position
    except UnicodeDecodeError as error:
        raise DataError(f"text is not UTF-8: {error}") from error


def _null(data: bytes, position: int) -> tuple[None, int]:
    del data
    return None, position


def _boolean(data: bytes, position: int) -> tuple[bool, int]:
    return data[position] != 0, position + 1


def _integer(bits: int) -> Read:
    limit = 1 << (bits - 1)

    def read(data: bytes, position: int) -> tuple[int, int]:
        value, position = read_long(data, position)
        if not -limit <= value < limit:
            raise DataError(f"{value} has more than {bits} bits")
        return value, position

    return read


def _float(data: bytes, position: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, position)[0], position + 4


def _double(data: bytes, position: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, position)[0], position + 8


def _fixed(size: int) -> Read:
    def read(data: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(data):
            raise DataError("the bytes end too early")
        return data[position:end], end

    return read


def _enum(writer: Enum, reader: Enum) -> Read:
    symbols = [symbol if symbol in reader.symbol_set else reader.default for symbol in writer.symbols]

    def read(data: bytes, position: int) -> tuple[str, int]:
        index, position = read_long(data, position)
        if not 0 <= index < len(symbols):
            raise DataError(f"{writer.name} has no symbol {index}")
        symbol = symbols[index]
        if symbol is None:
            raise DataError(f"the reader's {reader.name} has no symbol {writer.symbols[index]}, and no default")
        return symbol, position

    return read


def _promoted(writer: str, reader: str) -> Read:
    read = _PRIMITIVES[writer]
    if reader == "bytes":
        return _bytes
    if reader == "string":
        return _string
    if reader == "long":
        return read

    def read_number(data: bytes, position: int) -> tuple[float, int]:
        value, position = read(data, position)
        return float(value), position

    return read_number


_PRIMITIVES: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
