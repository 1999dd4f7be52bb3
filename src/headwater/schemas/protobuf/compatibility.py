"""Whether one .proto file reads what was written with another. Pure.

The kinds of change and which of them are harmless: "Protobuf Compatibility Rules" in Confluent's documentation of
Schema Registry. Which scalars read each other, and what repeated and oneof do to old bytes: "Updating A Message Type"
in Protobuf's language guide. Fields are told apart by their numbers. Imported messages are compared where a field names
them, whatever their package is called. The message of a group belongs to its field, and comes and goes with it; a group
and a message with a length do not read each other.
"""

from typing import Final

from headwater.schemas.model import Budget, Incompatibility, SchemaError, Sides
from headwater.schemas.protobuf.field_features import is_delimited
from headwater.schemas.protobuf.types import Enum, Field, File, Message

COMPATIBLE: Final = frozenset(
    {
        "MESSAGE_ADDED",
        "MESSAGE_MOVED",
        "ENUM_ADDED",
        "ENUM_REMOVED",
        "ENUM_CONST_ADDED",
        "ENUM_CONST_CHANGED",
        "ENUM_CONST_REMOVED",
        "FIELD_ADDED",
        "FIELD_REMOVED",
        "FIELD_NAME_CHANGED",
        "FIELD_STRING_OR_BYTES_LABEL_CHANGED",
        "ONEOF_ADDED",
        "ONEOF_REMOVED",
        "ONEOF_FIELD_ADDED",
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
    }
)
_SENTENCES: Final = {
    "PACKAGE_CHANGED": "the package is another one",
    "MESSAGE_REMOVED": "the message is gone",
    "FIELD_KIND_CHANGED": "the field was a scalar, a message, a group or a map, and is something else now",
    "FIELD_SCALAR_KIND_CHANGED": "the field has a scalar type that is encoded differently",
    "FIELD_NAMED_TYPE_CHANGED": "the field is of another message",
    "FIELD_NUMERIC_LABEL_CHANGED": "a number became repeated, or is not any more",
    "REQUIRED_FIELD_ADDED": "a required field is new",
    "REQUIRED_FIELD_REMOVED": "a required field is gone",
    "ONEOF_FIELD_REMOVED": "a field is gone from a oneof",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "several fields moved into one oneof, and may have been set together",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "a field moved into a oneof with others, and may have been set together with them",
}
_SCALAR_KINDS: Final = {
    "int32": "varint", "int64": "varint", "uint32": "varint", "uint64": "varint", "bool": "varint",
    "sint32": "zigzag", "sint64": "zigzag", "string": "text", "bytes": "text",
    "fixed32": "fixed32", "sfixed32": "fixed32", "fixed64": "fixed64", "sfixed64": "fixed64", "float": "float", "double": "double",
}  # fmt: skip
_DEEP_MAX: Final = 120

Change = tuple[str, str]  # kind, path


def differences(reader: File, writer: File, sides: Sides) -> list[Incompatibility]:
    return [
        Incompatibility(
            kind,
            f"#/{path}",
            f"Found incompatible change at '#/{path}' in the {sides.reader} schema: {_SENTENCES[kind]}",
        )
        for kind, path in dict.fromkeys(changes(writer, reader))
        if kind not in COMPATIBLE
    ]


def changes(old: File, new: File) -> list[Change]:
    comparison = _Comparison()
    if old.package != new.package:
        comparison.found.append(("PACKAGE_CHANGED", ""))
    groups = _groups(old.extensions)
    comparison.types(old.messages, groups, old.enums, new.messages, new.enums, "")
    return comparison.found


class _Comparison:
    def __init__(self) -> None:
        self.found: list[Change] = []
        self._budget = Budget()
        self._depth = 0
        self._seen: set[tuple[int, int]] = set()

    def types(
        self,
        old: list[Message],
        groups: set[Message],
        old_enums: list[Enum],
        new: list[Message],
        new_enums: list[Enum],
        path: str,
    ) -> None:
        before, after = {each.name: each for each in old}, {each.name: each for each in new}
        places = {each.name: index for index, each in enumerate(new)}
        for index, message in enumerate(old):
            if message in groups:
                continue
            if message.name not in after:
                self.found.append(("MESSAGE_REMOVED", path + message.name))
                continue
            self.message(message, after[message.name], path + message.name)
            if places[message.name] != index:
                self.found.append(("MESSAGE_MOVED", path + message.name))
        self.found += [("MESSAGE_ADDED", path + name) for name in after if name not in before]
        enums_before, enums_after = {each.name: each for each in old_enums}, {each.name: each for each in new_enums}
        for name, enum in enums_before.items():
            if name in enums_after:
                self._enum(enum, enums_after[name], path + name)
            else:
                self.found.append(("ENUM_REMOVED", path + name))
        self.found += [("ENUM_ADDED", path + name) for name in enums_after if name not in enums_before]

    def message(self, old: Message, new: Message, path: str) -> None:
        pair = (id(old), id(new))
        if pair in self._seen:
            return
        self._seen.add(pair)
        self._budget.spend(1 + len(old.fields) + len(new.fields))
        if self._depth >= _DEEP_MAX:
            raise SchemaError(
                f"the schemas are too deep to be compared: more than {_DEEP_MAX} messages inside each other"
            )
        self._depth += 1
        self._oneofs(old, new, path)
        self._fields(old, new, path)
        groups = _groups([*old.fields, *old.extensions])
        self.types(old.messages, groups, old.enums, new.messages, new.enums, f"{path}/")
        self._depth -= 1

    def _oneofs(self, old: Message, new: Message, path: str) -> None:
        before = {field.number: field for field in old.fields}
        members: dict[str, list[Field]] = {}
        for field in new.fields:
            if field.oneof:
                members.setdefault(field.oneof, []).append(field)
        for oneof, fields in members.items():
            known = [before[field.number] for field in fields if field.number in before]
            alone = sum(not field.oneof for field in known)
            groups = alone + len({field.oneof for field in known if field.oneof})
            if groups > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self.found.append((kind, f"{path}/{oneof}"))
        old_names, new_names = {field.oneof for field in old.fields if field.oneof}, members.keys()
        self.found += [("ONEOF_REMOVED", f"{path}/{name}") for name in sorted(old_names - new_names)]
        self.found += [("ONEOF_ADDED", f"{path}/{name}") for name in sorted(new_names - old_names)]

    def _fields(self, old: Message, new: Message, path: str) -> None:
        before = {field.number: field for field in old.fields}
        after = {field.number: field for field in new.fields}
        kept = {before[number].oneof for number in before.keys() & after.keys()} | {field.oneof for field in new.fields}
        for number in sorted(before.keys() | after.keys()):
            was, now = before.get(number), after.get(number)
            if was is not None and now is not None:
                here = f"{path}/{now.oneof}/{number}" if now.oneof else f"{path}/{number}"
                if was.oneof and not now.oneof:
                    self.found.append(("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", here))
                if is_delimited(was, old.file) != is_delimited(now, new.file) and _are_messages(was, now):
                    self.found.append(("FIELD_KIND_CHANGED", here))
                else:
                    self._field(was, now, here)
            elif was is not None and was.oneof:
                if was.oneof in kept:  # the whole oneof may go, a part of it may not
                    self.found.append(("ONEOF_FIELD_REMOVED", f"{path}/{was.oneof}/{number}"))
            elif was is not None:
                self.found.append(
                    ("REQUIRED_FIELD_REMOVED" if was.label == "required" else "FIELD_REMOVED", f"{path}/{number}")
                )
            elif now is not None and now.oneof:
                self.found.append(("ONEOF_FIELD_ADDED", f"{path}/{now.oneof}/{number}"))
            elif now is not None:
                self.found.append(
                    ("REQUIRED_FIELD_ADDED" if now.label == "required" else "FIELD_ADDED", f"{path}/{number}")
                )

    def _field(self, old: Field, new: Field, path: str) -> None:
        if old.name != new.name:
            self.found.append(("FIELD_NAME_CHANGED", path))
        if (old.type == "map") != (new.type == "map"):
            self.found.append(("FIELD_KIND_CHANGED", path))
        elif old.type == "map":
            self._scalars(old.map_key, new.map_key, path)
            self._values(old, new, old.map_value, new.map_value, path, labels=False)
        else:
            self._values(old, new, old.type, new.type, path, labels=True)

    def _values(self, old: Field, new: Field, old_type: str, new_type: str, path: str, *, labels: bool) -> None:
        if isinstance(old.target, Message) != isinstance(new.target, Message):
            self.found.append(("FIELD_KIND_CHANGED", path))
        elif isinstance(old.target, Message) and isinstance(new.target, Message):
            self._messages(old.target, new.target, path)
        else:
            kind = self._scalars("int32" if old.target else old_type, "int32" if new.target else new_type, path)
            if kind and labels and (old.label or "optional") != (new.label or "optional"):
                self.found.append((f"FIELD_{'STRING_OR_BYTES' if kind == 'text' else 'NUMERIC'}_LABEL_CHANGED", path))

    def _scalars(self, old: str, new: str, path: str) -> str:
        if _SCALAR_KINDS[old] != _SCALAR_KINDS[new]:
            self.found.append(("FIELD_SCALAR_KIND_CHANGED", path))
            return ""
        return _SCALAR_KINDS[old]

    def _messages(self, old: Message, new: Message, path: str) -> None:
        if old.local_name != new.local_name:
            self.found.append(("FIELD_NAMED_TYPE_CHANGED", path))
            return
        count = len(self.found)
        self.message(old, new, old.local_name.replace(".", "/"))
        if any(kind not in COMPATIBLE for kind, _ in self.found[count:]):
            self.found.append(("FIELD_NAMED_TYPE_CHANGED", path))

    def _enum(self, old: Enum, new: Enum, path: str) -> None:
        before, after = {each.number: each.name for each in old.values}, {each.number: each.name for each in new.values}
        for number in sorted(before.keys() | after.keys()):
            if before.get(number) != after.get(number):
                change = "ADDED" if number not in before else "REMOVED" if number not in after else "CHANGED"
                self.found.append((f"ENUM_CONST_{change}", f"{path}/{number}"))


def _groups(fields: list[Field]) -> set[Message]:
    """The messages that are defined with one of these fields."""
    return {field.target for field in fields if field.type == "group" and isinstance(field.target, Message)}


def _are_messages(*fields: Field) -> bool:
    return all(isinstance(each.target, Message) for each in fields)
