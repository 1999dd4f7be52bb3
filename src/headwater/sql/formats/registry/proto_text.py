"""The .proto file of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type

_PLAIN: Final = {
    Base.BOOLEAN: ("bool", "BoolValue"), Base.INTEGER: ("int32", "Int32Value"), Base.BIGINT: ("int64", "Int64Value"),
    Base.DOUBLE: ("double", "DoubleValue"), Base.STRING: ("string", "StringValue"), Base.BYTES: ("bytes", "BytesValue"),
}  # fmt: skip
_IMPORTED: Final = {
    Base.DATE: ("google.type.Date", "google/type/date.proto"),
    Base.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    Base.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    Base.DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}
_WRAPPERS: Final = "google/protobuf/wrappers.proto"


def proto_text(fields: Sequence[Field], options: FormatOptions) -> str:
    """`ConnectDefault1`, or the message that `full_name` names, package included."""
    package, _, name = (options.full_name or "ConnectDefault1").rpartition(".")
    made = _Text(options.nullable)
    body = made.message(name, fields, "")
    imports = "".join(f'import "{each}";\n' for each in sorted(made.imports))
    return (
        'syntax = "proto3";\n'
        + (f"package {package};\n" if package else "")
        + (f"\n{imports}" if imports else "")
        + f"\n{body}"
    )


@dataclass(slots=True)
class _Text:
    nullable: str | None
    imports: set[str] = field(default_factory=set)
    messages: int = 1

    def message(self, name: str, fields: Sequence[Field], indent: str) -> str:
        lines, nested = [], []
        for number, each in enumerate(fields, 1):
            label, kind, inner = self._kind(each.type, each.name, top=True)
            nested += inner
            digits = each.type if isinstance(each.type, DecimalType) else getattr(each.type, "item", None)
            lines.append(f"{indent}  {label}{kind} {each.name} = {number}{_options(digits)};\n")
        inner_text = "".join("\n" + self._nested(each, indent + "  ") for each in nested)
        return f"{indent}message {name} {{\n{''.join(lines)}{inner_text}{indent}}}\n"

    def _nested(self, given: tuple[str, StructType], indent: str) -> str:
        name, struct = given
        return self.message(name, [Field(each, inner) for each, inner in struct.fields], indent)

    def _kind(self, given: Type, name: str, *, top: bool) -> tuple[str, str, list[tuple[str, StructType]]]:
        """The label, the type, and the messages that the type needs beside it."""
        if isinstance(given, ArrayType | MapType) and not top:
            raise SqlError(
                f"The PROTOBUF format has no lists of lists or maps: {name}.", hint="Put a STRUCT between them."
            )
        if isinstance(given, ArrayType):
            _, kind, nested = self._kind(given.item, name, top=False)
            return "repeated ", kind, nested
        if isinstance(given, MapType):
            _, key, _ = self._kind(given.key, name, top=False)
            _, kind, nested = self._kind(given.value, name, top=False)
            return "", f"map<{key}, {kind}>", nested
        if isinstance(given, StructType):
            self.messages += 1
            made = f"ConnectDefault{self.messages}"
            return "", made, [(made, given)]
        if given.base in _IMPORTED:
            kind, path = _IMPORTED[given.base]
            self.imports |= {path, "confluent/meta.proto"} if given.base is Base.DECIMAL else {path}
            return "", kind, []
        plain, wrapper = _PLAIN[given.base]
        if top and self.nullable == "WRAPPER":
            self.imports.add(_WRAPPERS)
            return "", f"google.protobuf.{wrapper}", []
        return "optional " if top and self.nullable == "OPTIONAL" else "", plain, []


def _options(given: Type | None) -> str:
    if not isinstance(given, DecimalType):
        return ""
    return (
        f' [(confluent.field_meta) = {{ params: [{{ value: "{given.precision}", key: "precision" }}, '
        f'{{ value: "{given.scale}", key: "scale" }}] }}]'
    )
