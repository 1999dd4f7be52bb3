"""What the options of a .proto file mean: each is looked for in `descriptor.proto` and among the extensions that the
file defines or imports, and gets the bytes that protoc writes for it. Fills in `Option.encoded`.

An option that is not known, or whose value does not fit, stays as it is written, and the first of them is told in
`File.problem`: text that others have stored may lack the file that defines its options, and is to be read all the same.
What is to be registered must have no such problem.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from headwater.schemas.model import SchemaError
from headwater.schemas.protobuf.option_values import Extension, Scope, decode_option, encode_option
from headwater.schemas.protobuf.types import Enum, Field, File, Message, Option, all_messages, name_parts

_PARTS_MAX: Final = 50  # of the name of an option
_OF_THE_PARSER: Final = ("default", "json_name")  # written like options of a field, and none


def resolve_options(file: File, files: Mapping[str, File], names: Mapping[str, Message | Enum]) -> Scope:
    """Gives what their names mean. `files` are all imports and theirs, all with their names resolved,
    and `descriptor.proto` among `names`.
    """
    scope = Scope(dict(_extensions([*files.values(), file])), names)
    for options, kind, place, where in elements(file):
        message = names[f"google.protobuf.{kind}"]
        assert isinstance(message, Message)
        if any(each.wire is not None for each in options):
            options[:] = _in_words(options, message, scope)
        taken: set[tuple[int, ...]] = set()
        for option in options:
            if kind == "FieldOptions" and option.name in _OF_THE_PARSER:
                continue
            try:
                if file.syntax != "editions" and option.name.partition(".")[0] == "features":
                    raise SchemaError("only editions have features")
                path = _path(option.name, message, scope, place)
                _take(path, taken)
                option.encoded = encode_option(path, option.value, scope)
            except SchemaError as problem:
                file.problem = file.problem or f"the option {option.name[:200]} of {where}: {problem}"
    return scope


def has_options(file: File) -> bool:
    return any(options for options, _, _, _ in elements(file))


def _extensions(files: list[File]) -> Iterator[tuple[str, Extension]]:
    for file in files:
        prefix = f"{file.package}." if file.package else ""
        for each in file.extensions:
            yield prefix + each.name, Extension(prefix + each.name, each, file)
        for message in all_messages(file.messages):
            for each in message.extensions:
                name = f"{message.full_name}.{each.name}"
                yield name, Extension(name, each, file)


def _path(name: str, message: Message, scope: Scope, place: str) -> list[Field]:
    """(a.b).c.d -> the extension a.b, the field c of its message, the field d of that one."""
    path: list[Field] = []
    inside: Message | Enum | None = message
    parts = name_parts(name)
    if len(parts) > _PARTS_MAX:
        raise SchemaError(f"its name has more than {_PARTS_MAX} parts")
    for part, is_extension in parts:
        if path and (not isinstance(inside, Message) or path[-1].type == "map"):
            raise SchemaError(f"{path[-1].name} is not a message, and has no {part[:200]}")
        if path and path[-1].label == "repeated":
            raise SchemaError(f"{path[-1].name} is repeated: its elements are set as a whole, = {{ field: value }}")
        assert isinstance(inside, Message)
        if is_extension:
            found = scope.extension(part, place)
            if found is None:
                raise SchemaError(f"the extension {part[:200]} is not defined here or imported")
            extended = found.field.extended
            if extended is None or extended.full_name != inside.full_name:
                raise SchemaError(f"{part[:200]} does not extend {inside.full_name}")
            path.append(found.field)
        else:
            known = scope.field(inside, part)
            if known is None or known.name == "uninterpreted_option":
                raise SchemaError(f"{inside.full_name} has no field {part[:200]}")
            path.append(known)
        inside = path[-1].target
    return path


def _take(path: list[Field], taken: set[tuple[int, ...]]) -> None:
    """One that is not repeated is set once: as a whole, or each of its parts."""
    numbers = tuple(each.number for each in path)
    if path[-1].label != "repeated" and path[-1].type != "map" and numbers in taken:
        raise SchemaError("it is set already")
    if any((*numbers[:size], 0) in taken for size in range(1, len(numbers))):
        raise SchemaError("the message that it is of is set already, as a whole")
    taken |= {numbers[:size] for size in range(1, len(numbers) + 1)}
    taken.add((*numbers, 0))


def _in_words(options: list[Option], message: Message, scope: Scope) -> list[Option]:
    """Options of a descriptor by their names; one whose number nobody here knows has no name, and is left out."""
    found: list[Option] = []
    for option in options:
        if option.wire is None:
            found.append(option)
            continue
        number, values = option.wire
        known = scope.numbered(message, number)
        if known is not None:
            name, described = known
            found += decode_option(f"({name[1:-1]})" if name.startswith("[") else name, described, values, scope)
    return found


def elements(file: File) -> Iterator[tuple[list[Option], str, str, str]]:
    """Everything that can have options: they, the message that defines them, the scope in which extensions are looked
    for, and what it is called.
    """
    yield file.options, "FileOptions", file.package, "the file"
    yield from _enums(file.enums, file.package)
    for each in file.extensions:
        yield each.options, "FieldOptions", file.package, each.name
    for message in all_messages(file.messages):
        name = message.full_name
        yield message.options, "MessageOptions", name.rpartition(".")[0], name
        for field in (*message.fields, *message.extensions):
            yield field.options, "FieldOptions", name, f"{name}.{field.name}"
        for oneof in message.oneofs:
            yield oneof.options, "OneofOptions", name, f"{name}.{oneof.name}"
        for options in message.extension_ranges.options.values():
            yield options, "ExtensionRangeOptions", name, f"a range of extensions of {name}"
        yield from _enums(message.enums, name)
    prefix = f"{file.package}." if file.package else ""
    for service in file.services:
        name = prefix + service.name
        yield service.options, "ServiceOptions", file.package, name
        for method in service.methods:
            yield method.options, "MethodOptions", name, f"{name}.{method.name}"


def _enums(enums: list[Enum], place: str) -> Iterator[tuple[list[Option], str, str, str]]:
    for enum in enums:
        yield enum.options, "EnumOptions", place, enum.full_name
        for value in enum.values:
            yield value.options, "EnumValueOptions", place, f"{enum.full_name}.{value.name}"
