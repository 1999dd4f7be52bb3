"""Whether anything at all that one Avro schema wrote can be read with another. Pure.

What is compatible reads every value (`compatibility`). A reader's schema that is not may still read those that came:
where the writer has a union, each value decides which branch must be read, and an enum is decided by its symbol. So a
reader is refused before the first value only where no value could be read.
"""

from headwater.schemas.avro.compatibility import PAIRS_DEEP_MAX, PROMOTIONS
from headwater.schemas.avro.types import Array, AvroType, Enum, Fixed, Map, Named, Record, Union
from headwater.schemas.model import SchemaError


class Resolution:
    """Each pair of types is looked at once; a pair within itself is taken to be readable meanwhile."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bool] = {}
        self._depth = 0

    def reads_some(self, reader: AvroType, writer: AvroType) -> bool:
        if reader is writer:
            return True
        pair = (id(reader), id(writer))
        if pair not in self._seen:
            if self._depth >= PAIRS_DEEP_MAX:
                raise SchemaError(f"the schemas are too deep to be compared: more than {PAIRS_DEEP_MAX} types inside each other")  # fmt: skip
            self._seen[pair] = True
            self._depth += 1
            self._seen[pair] = self._of_pair(reader, writer)
            self._depth -= 1
        return self._seen[pair]

    def _of_pair(self, reader: AvroType, writer: AvroType) -> bool:
        if isinstance(writer, Union):
            return any(self.reads_some(reader, branch) for branch in writer.branches)
        if isinstance(reader, Union):
            return any(self.reads_some(branch, writer) for branch in reader.branches)
        if reader.kind != writer.kind:
            return writer.kind in PROMOTIONS.get(reader.kind, ())
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.reads_some(reader.items, writer.items)
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.reads_some(reader.values, writer.values)
        if isinstance(reader, Named) and isinstance(writer, Named):
            return _has_name_of(reader, writer) and self._named(reader, writer)
        return True

    def _named(self, reader: Named, writer: Named) -> bool:
        if isinstance(reader, Record) and isinstance(writer, Record):
            return all(self._field(reader, writer, index) for index in range(len(reader.fields)))
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return reader.size == writer.size
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return reader.default is not None or not reader.symbol_set.isdisjoint(writer.symbols)
        return True

    def _field(self, reader: Record, writer: Record, index: int) -> bool:
        field = reader.fields[index]
        names = [name for name in dict.fromkeys((field.name, *field.aliases)) if name in writer.by_name]
        if not names:
            return field.has_default
        return len(names) == 1 and self.reads_some(field.type, writer.by_name[names[0]].type)


def _has_name_of(reader: Named, writer: Named) -> bool:
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases
