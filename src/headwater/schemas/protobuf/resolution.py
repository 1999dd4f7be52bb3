"""What the names in a .proto file mean, and what the language forbids that its grammar allows. Fills in `full_name` and
`target`.

A name is looked for from the innermost scope outwards, in the file and in what it imports. Imports are the references
of the schema, or well-known files; nothing is read from anywhere.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from headwater.schemas.model import NAME_LENGTH_MAX, Budget, SchemaError
from headwater.schemas.protobuf.option_resolution import has_options, resolve_options
from headwater.schemas.protobuf.option_values import Scope
from headwater.schemas.protobuf.types import (
    FIELD_NUMBER_MAX,
    MAP_KEYS,
    SCALARS,
    Enum,
    Field,
    File,
    Message,
    Option,
    all_messages,
)
from headwater.schemas.protobuf.wellknown import DESCRIPTOR, META, TEXTS, well_known

Names = dict[str, Message | Enum]
_ALLOW_ALIAS: Final = 2  # of google.protobuf.EnumOptions


def resolve(file: File, imported: Mapping[str, File], budget: Budget) -> tuple[dict[str, File], Scope | None]:
    """Resolve the names of a file. Gives every file that it imports, and theirs, by path; and what its options mean, if
    it has any.
    """
    files: dict[str, File] = {}
    names: Names = {}
    _collect_imports(file, imported, files)
    for path, each in files.items():
        if not each.messages and not each.enums:
            continue
        _name_all(each, names if path not in imported else {})
        for message in all_messages(each.messages):
            budget.spend()
            names[message.full_name] = message
            names |= {enum.full_name: enum for enum in message.enums}
        names |= {enum.full_name: enum for enum in each.enums}
    own: Names = {}
    _name_all(file, own)
    known = names | own
    for message in all_messages(file.messages):
        _resolve_message(message, file, known)
    for extension in file.extensions:
        _resolve_field(extension, file.package, known)
    for service in file.services:
        for method in service.methods:
            where = f"the method {service.name}.{method.name}"
            method.request_full_name = _find(method.request, file.package, known, where).full_name
            method.response_full_name = _find(method.response, file.package, known, where).full_name
    if not has_options(file):
        return files, None
    return files, resolve_options(file, _with_options_of_everyone(files), _names_of_options() | known)


def _with_options_of_everyone(files: dict[str, File]) -> dict[str, File]:
    """Confluent's registry takes its own options without an import, and so do we."""
    if META in files:
        return files
    return {META: _resolved_well_known(META), **files}


@cache
def _names_of_options() -> Names:
    """`descriptor.proto`, which every file stands on, and Confluent's options."""
    names: Names = {}
    for file in (_resolved_well_known(DESCRIPTOR), _resolved_well_known(META)):
        _name_all(file, names)
    return names


def _collect_imports(file: File, imported: Mapping[str, File], files: dict[str, File]) -> None:
    pending = [each.path for each in file.imports]
    while pending:
        path = pending.pop()
        if path in files:
            continue
        found = imported.get(path)
        if found is None and path in TEXTS:
            found = _resolved_well_known(path)
        if found is None:
            raise SchemaError(
                f"not a .proto file that stands: it imports {path[:200]!r}, which is not among its references"
            )
        files[path] = found
        pending += [each.path for each in found.imports]


@cache
def _resolved_well_known(path: str) -> File:
    """A file that all schemas share: its names mean what well-known files define, whoever imports it."""
    file = well_known(path)
    files: dict[str, File] = {}
    names: Names = {}
    _collect_imports(file, {}, files)
    for each in (*files.values(), file):
        _name_all(each, names)
    for message in all_messages(file.messages):
        for field in message.fields:
            _resolve_field(field, message.full_name, names)
    for extension in file.extensions:
        _resolve_field(extension, file.package, names)
    return file


def _name_all(file: File, names: Names) -> None:
    if len(file.package) > NAME_LENGTH_MAX:
        raise SchemaError(f"not a .proto file that stands: its package has more than {NAME_LENGTH_MAX:,} characters")
    prefix = f"{file.package}." if file.package else ""
    for enum in file.enums:
        _add(enum, prefix + enum.name, names)
    pending = [(message, prefix) for message in file.messages]
    while pending:
        message, outer = pending.pop()
        message.file = file
        _add(message, outer + message.name, names)
        for enum in message.enums:
            _add(enum, f"{message.full_name}.{enum.name}", names)
        pending += [(inner, f"{message.full_name}.") for inner in message.messages]


def _add(named: Message | Enum, full_name: str, names: Names) -> None:
    if full_name in names and names[full_name] is not named:
        raise SchemaError(f"not a .proto file that stands: {full_name} is defined twice")
    if len(full_name) > NAME_LENGTH_MAX:
        raise SchemaError(
            f"not a .proto file that stands: the full name {full_name[:100]}... has more than {NAME_LENGTH_MAX:,} characters"
        )
    named.full_name = full_name
    names[full_name] = named
    if isinstance(named, Enum):
        _check_enum(named)


def _find(name: str, scope: str, names: Names, where: str) -> Message | Enum:
    if name.startswith("."):
        found = names.get(name[1:])
    else:
        found = names.get(f"{scope}.{name}" if scope else name)
        while found is None and scope:
            scope = scope.rpartition(".")[0]
            found = names.get(f"{scope}.{name}" if scope else name)
    if found is None:
        raise SchemaError(
            f"not a .proto file that stands: {where} is of the type {name[:200]!r}, which is not defined here or imported"
        )
    return found


def _resolve_message(message: Message, file: File, names: Names) -> None:
    numbers: dict[int, str] = {}
    field_names: set[str] = set()
    for field in message.fields:
        where = f"{message.full_name}.{field.name}"
        if field.number in numbers:
            raise SchemaError(
                f"not a .proto file that stands: {where} and {numbers[field.number]} both have the number {field.number}"
            )
        if field.name in field_names:
            raise SchemaError(f"not a .proto file that stands: {where} is there twice")
        numbers[field.number] = field.name
        field_names.add(field.name)
        _check_field(field, file, where)
        _resolve_field(field, message.full_name, names)
    _check_ranges(message)
    for extension in message.extensions:
        _resolve_field(extension, message.full_name, names)


def _check_field(field: Field, file: File, where: str) -> None:
    if 19_000 <= field.number <= 19_999:
        raise SchemaError(
            f"not a .proto file that stands: {where} has the number {field.number}: 19000 to 19999 are Protobuf's own"
        )
    if file.syntax == "proto3" and field.label == "required":
        raise SchemaError(f"not a .proto file that stands: {where} is required, which proto3 does not know")
    if file.syntax == "proto2" and not field.label and not field.oneof and field.type != "map":
        raise SchemaError(
            f"not a .proto file that stands: {where} needs to be optional, required or repeated in proto2"
        )
    if field.type == "map" and field.map_key not in MAP_KEYS:
        raise SchemaError(f"not a .proto file that stands: the key of the map {where} cannot be {field.map_key[:50]!r}")


def _check_ranges(message: Message) -> None:
    # Sorted, so that a long list of ranges and fields stays cheap.
    ranges = sorted(message.reserved.numbers)
    index = 0
    for field in sorted(message.fields, key=lambda each: each.number):
        while index < len(ranges) and ranges[index][1] < field.number:
            index += 1
        if index < len(ranges) and ranges[index][0] <= field.number:
            raise SchemaError(
                f"not a .proto file that stands: {message.full_name}.{field.name} has the number {field.number}, which is reserved"
            )
    reserved = set(message.reserved.names)
    for field in message.fields:
        if field.name in reserved:
            raise SchemaError(
                f"not a .proto file that stands: {message.full_name}.{field.name} has a name that is reserved"
            )


def _check_enum(enum: Enum) -> None:
    if not enum.values:
        raise SchemaError(f"not a .proto file that stands: the enum {enum.full_name} has no values")
    alias = any(_allows_alias(option) for option in enum.options)
    numbers = [value.number for value in enum.values]
    if not alias and len(set(numbers)) < len(numbers):
        raise SchemaError(
            f"not a .proto file that stands: a number is in the enum {enum.full_name} twice, without allow_alias"
        )


def _check_group(field: Field, scope: str) -> None:
    """Text says both at once: the field has the name of its message, in small letters, and stands where that does. A
    descriptor can say something else.
    """
    name = field.target.name if isinstance(field.target, Message) else ""
    place = f"{scope}.{name}" if scope else name
    if field.target is None or field.target.full_name != place or name.lower() != field.name:
        raise SchemaError(f"not a .proto file that stands: the group {field.name} is not that of a message beside it")


def _allows_alias(option: Option) -> bool:
    if option.wire is not None:  # of a descriptor: its names come later
        number, values = option.wire
        return number == _ALLOW_ALIAS and values[-1:] == [1]
    return option.name == "allow_alias" and option.value.text == "true"


def _resolve_field(field: Field, scope: str, names: Names) -> None:
    if field.number > FIELD_NUMBER_MAX:
        raise SchemaError(f"not a .proto file that stands: {field.name} has a number beyond {FIELD_NUMBER_MAX}")
    name = field.map_value if field.type in ("map", "group") else field.type
    if name not in SCALARS:
        field.target = _find(name, scope, names, f"{scope}.{field.name}")
    if field.type == "group":
        _check_group(field, scope)
    if field.extendee:
        extended = _find(field.extendee, scope, names, f"what {field.name} extends")
        field.extended = extended if isinstance(extended, Message) else None
