"""Options in descriptors: those of `descriptor.proto` by their numbers, all others as uninterpreted ones. Pure.

An option that another file defines as an extension is kept by its name, as protoc hands it on before it knows the
extension. In a descriptor that protoc has finished, such an option is bytes under a number whose meaning stands
elsewhere: it is passed over.
"""

from typing import Final, Literal

from headwater.schemas.protobuf.types import Option, Value
from headwater.schemas.protobuf.wire import Fields, Writer, signed

Kind = Literal["text", "bool"] | tuple[str, ...]

_OPTIMIZE: Final = ("", "SPEED", "CODE_SIZE", "LITE_RUNTIME")
FILE: Final[dict[str, tuple[int, Kind]]] = {
    "java_package": (1, "text"), "java_outer_classname": (8, "text"), "optimize_for": (9, _OPTIMIZE), "java_multiple_files": (10, "bool"),
    "go_package": (11, "text"), "cc_generic_services": (16, "bool"), "java_generic_services": (17, "bool"), "py_generic_services": (18, "bool"),
    "java_generate_equals_and_hash": (20, "bool"), "deprecated": (23, "bool"), "java_string_check_utf8": (27, "bool"), "cc_enable_arenas": (31, "bool"),
    "objc_class_prefix": (36, "text"), "csharp_namespace": (37, "text"), "swift_prefix": (39, "text"), "php_class_prefix": (40, "text"),
    "php_namespace": (41, "text"), "php_metadata_namespace": (44, "text"), "ruby_package": (45, "text"),
}  # fmt: skip
MESSAGE: Final[dict[str, tuple[int, Kind]]] = {
    "message_set_wire_format": (1, "bool"), "no_standard_descriptor_accessor": (2, "bool"), "deprecated": (3, "bool"), "map_entry": (7, "bool"),
    "deprecated_legacy_json_field_conflicts": (11, "bool"),
}  # fmt: skip
FIELD: Final[dict[str, tuple[int, Kind]]] = {
    "ctype": (1, ("STRING", "CORD", "STRING_PIECE")), "packed": (2, "bool"), "deprecated": (3, "bool"), "lazy": (5, "bool"),
    "jstype": (6, ("JS_NORMAL", "JS_STRING", "JS_NUMBER")), "weak": (10, "bool"), "unverified_lazy": (15, "bool"), "debug_redact": (16, "bool"),
}  # fmt: skip
ENUM: Final[dict[str, tuple[int, Kind]]] = {"allow_alias": (2, "bool"), "deprecated": (3, "bool")}
ENUM_VALUE: Final[dict[str, tuple[int, Kind]]] = {"deprecated": (1, "bool"), "debug_redact": (3, "bool")}
SERVICE: Final[dict[str, tuple[int, Kind]]] = {"deprecated": (33, "bool")}
METHOD: Final[dict[str, tuple[int, Kind]]] = {
    "deprecated": (33, "bool"),
    "idempotency_level": (34, ("IDEMPOTENCY_UNKNOWN", "NO_SIDE_EFFECTS", "IDEMPOTENT")),
}
NONE: Final[dict[str, tuple[int, Kind]]] = {}
_UNINTERPRETED: Final = 999


def write_options(options: list[Option], known: dict[str, tuple[int, Kind]]) -> bytes:
    """By their numbers, as protoc serializes them; of one that stands twice, the last counts."""
    writer = Writer()
    by_number = {known[each.name][0]: each for each in options if each.name in known}
    for number, option in sorted(by_number.items()):
        _, kind = known[option.name]
        if kind == "text":
            writer.data(number, option.value.data)
        elif kind == "bool":
            writer.number(number, option.value.text == "true")
        elif option.value.text in kind:
            writer.number(number, kind.index(option.value.text))
    for option in options:
        if option.name not in known:
            writer.data(_UNINTERPRETED, _uninterpreted(option))
    return writer.bytes()


def _uninterpreted(option: Option) -> bytes:
    writer = Writer()
    for part, is_extension in _parts(option.name):
        writer.data(2, Writer().text(1, part).number(2, is_extension).bytes())
    value = option.value
    match value.kind:
        case "identifier":
            writer.text(3, value.text)
        case "string":
            writer.data(7, value.data)
        case "aggregate":
            writer.text(8, value.text[1:-1].strip())
        case "number":
            _write_number(writer, value.text)
    return writer.bytes()


def _write_number(writer: Writer, text: str) -> None:
    try:
        number = int(text, 0)
    except ValueError:
        try:
            writer.double(6, float(text.rstrip("fF") if "inf" not in text else text))
        except ValueError:
            writer.text(3, text)
        return
    if 0 <= number < 1 << 64:
        writer.number(4, number)
    elif -(1 << 63) <= number < 0:
        writer.number(5, number)
    else:
        writer.double(6, float(number))


def _parts(name: str) -> list[tuple[str, bool]]:
    """(a.b).c.d -> (a.b, an extension), (c, not), (d, not)"""
    parts: list[tuple[str, bool]] = []
    rest = name
    while rest:
        if rest.startswith("("):
            inner, _, rest = rest[1:].partition(")")
            parts.append((inner, True))
            rest = rest.removeprefix(".")
        else:
            inner, _, rest = rest.partition(".")
            parts.append((inner, False))
    return parts


def read_options(fields: Fields | None, known: dict[str, tuple[int, Kind]]) -> list[Option]:
    if fields is None:
        return []
    options = []
    by_number = {number: (name, kind) for name, (number, kind) in known.items()}
    for number in fields.numbers():
        if number == _UNINTERPRETED:
            options += [_read_uninterpreted(each) for each in fields.messages(number)]
        elif number in by_number:
            name, kind = by_number[number]
            if kind == "text":
                data = fields.data(number)
                options.append(Option(name, Value("string", data.decode("utf-8", "replace"), data)))
            elif kind == "bool":
                options.append(Option(name, Value("identifier", "true" if fields.number(number) else "false")))
            elif 0 <= fields.number(number) < len(kind):
                options.append(Option(name, Value("identifier", kind[fields.number(number)])))
    return options


def _read_uninterpreted(fields: Fields) -> Option:
    parts = []
    for part in fields.messages(2):
        name = part.text(1)
        parts.append(f"({name})" if part.number(2) else name)
    option_name = ".".join(parts)
    if fields.has(3):
        return Option(option_name, Value("identifier", fields.text(3)))
    if fields.has(4):
        return Option(option_name, Value("number", str(fields.number(4))))
    if fields.has(5):
        return Option(option_name, Value("number", str(signed(fields.number(5)))))
    if fields.has(6):
        return Option(option_name, Value("number", repr(fields.double(6))))
    if fields.has(7):
        data = fields.data(7)
        return Option(option_name, Value("string", data.decode("utf-8", "replace"), data))
    return Option(option_name, Value("aggregate", "{ " + fields.text(8) + " }"))
