"""Whether one Avro schema reads what another wrote: Avro's schema resolution, as Java's `SchemaCompatibility` decides
it. Pure.

A recursive schema is compared on the assumption that it fits while it is looked at, as Java does. Each pair of types is
looked at once. The text of one schema is limited in depth, but named types chain beyond that, so the depth is limited
here too. A type that is used in many places brings its differences to each of them: every one that is handed on is
work, too, so that their number is limited.
"""

from typing import Final

from headwater.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from headwater.schemas.model import Budget, Incompatibility, SchemaError, Sides

PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
PAIRS_DEEP_MAX: Final = 160  # pairs inside each other: far beyond what people write, below Python's recursion limit


def differences(reader: AvroType, writer: AvroType, sides: Sides) -> list[Incompatibility]:
    return _Comparison(sides).compare(reader, writer, "")


class _Comparison:
    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._budget = Budget()
        self._depth = 0
        # Both types are kept by their schemas while this lives, so that identities stay unique.
        self._seen: dict[tuple[int, int], list[Incompatibility] | None] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        pair = (id(reader), id(writer))
        if pair in self._seen:
            known = self._seen[pair] or []
            self._budget.spend(len(known))
            return known
        self._budget.spend()
        if self._depth >= PAIRS_DEEP_MAX:
            raise SchemaError(
                f"the schemas are too deep to be compared: more than {PAIRS_DEEP_MAX} types inside each other"
            )
        self._seen[pair] = None
        self._depth += 1
        found = list(dict.fromkeys(self._of_pair(reader, writer, path)))
        self._budget.spend(len(found))
        self._depth -= 1
        self._seen[pair] = found
        return found

    def _of_pair(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if isinstance(writer, Union):
            return self._writer_union(reader, writer, path)
        if isinstance(reader, Union):
            return self._reader_union(reader, writer, path)
        if reader.kind != writer.kind:
            if writer.kind in PROMOTIONS.get(reader.kind, ()):
                return []
            return [
                self._difference(
                    "TYPE_MISMATCH",
                    path,
                    f"the type at '{path or '/'}' is {reader.label} in the {self._sides.reader} schema and {writer.label} in the {self._sides.writer} schema",
                )
            ]
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, f"{path}/items")
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, f"{path}/values")
        if isinstance(reader, Named) and isinstance(writer, Named):
            return self._named(reader, writer, path)
        return []

    def _writer_union(self, reader: AvroType, writer: Union, path: str) -> list[Incompatibility]:
        found = []
        for index, branch in enumerate(writer.branches):
            lacking = self.compare(reader, branch, path)
            if lacking and isinstance(reader, Union):
                found.append(
                    self._difference(
                        "MISSING_UNION_BRANCH",
                        f"{path}/{index}",
                        f"the union at '{path or '/'}' of the {self._sides.reader} schema has no branch that reads {branch.label} of the {self._sides.writer} schema",
                    )
                )
            else:
                found += lacking
        return found

    def _reader_union(self, reader: Union, writer: AvroType, path: str) -> list[Incompatibility]:
        for index, branch in enumerate(reader.branches):
            if not self.compare(branch, writer, f"{path}/{index}"):
                return []
        return [
            self._difference(
                "MISSING_UNION_BRANCH",
                path,
                f"the union at '{path or '/'}' of the {self._sides.reader} schema has no branch that reads {writer.label} of the {self._sides.writer} schema",
            )
        ]

    def _named(self, reader: Named, writer: Named, path: str) -> list[Incompatibility]:
        found = []
        if reader.simple_name != writer.simple_name and writer.name not in reader.aliases:
            found.append(
                self._difference(
                    "NAME_MISMATCH",
                    f"{path}/name",
                    f"the {reader.kind} at '{path or '/'}' is called {reader.name} in the {self._sides.reader} schema and {writer.name} in the {self._sides.writer} schema, and has no such alias",
                )
            )
        if isinstance(reader, Record) and isinstance(writer, Record):
            found += self._fields(reader, writer, path)
        elif isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
            found.append(
                self._difference(
                    "FIXED_SIZE_MISMATCH",
                    f"{path}/size",
                    f"{reader.name} at '{path or '/'}' has {reader.size} bytes in the {self._sides.reader} schema and {writer.size} in the {self._sides.writer} schema",
                )
            )
        elif isinstance(reader, Enum) and isinstance(writer, Enum) and reader.default is None:
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbol_set]
            if missing:
                found.append(
                    self._difference(
                        "MISSING_ENUM_SYMBOLS",
                        f"{path}/symbols",
                        f"the enum {reader.name} at '{path or '/'}' has no default and lacks the symbols [{', '.join(missing[:20])}] in the {self._sides.reader} schema",
                    )
                )
        return found

    def _fields(self, reader: Record, writer: Record, path: str) -> list[Incompatibility]:
        found = []
        for index, each in enumerate(reader.fields):
            here = f"{path}/fields/{index}"
            matching = _matching(each, writer)
            if len(matching) > 1:
                names = " and ".join(match.name for match in matching)
                found.append(
                    self._difference(
                        "NAME_MISMATCH",
                        here,
                        f"the field '{each.name}' at path '{here}' in the {self._sides.reader} schema matches several fields of the {self._sides.writer} schema: {names}",
                    )
                )
            elif matching:
                found += self.compare(each.type, matching[0].type, f"{here}/type")
            elif not each.has_default:
                found.append(
                    self._difference(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        here,
                        f"The field '{each.name}' at path '{here}' in the {self._sides.reader} schema has no default value and is missing in the {self._sides.writer} schema",
                    )
                )
        return found

    def _difference(self, kind: str, path: str, message: str) -> Incompatibility:
        return Incompatibility(kind, path or "/", message)


def _matching(reader_field: Field, writer: Record) -> list[Field]:
    names = dict.fromkeys((reader_field.name, *reader_field.aliases))
    return [writer.by_name[name] for name in names if name in writer.by_name]
