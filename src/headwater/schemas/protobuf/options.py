"""Lists of options in descriptors: what `descriptor.proto` and extensions define by their numbers. Pure.

What an option means, `option_resolution` finds out. One that nobody knows is kept by its name (an uninterpreted
option), as protoc hands it on before it knows the extension.
"""

import math
from typing import Final

from headwater.schemas.protobuf.option_values import Scope, in_order
from headwater.schemas.protobuf.types import Message, Option, Value, name_parts
from headwater.schemas.protobuf.wire import Fields, Writer, signed

_UNINTERPRETED: Final = 999
_NONE: Final = Value("identifier", "")


def write_options(options: list[Option], kind: str, scope: Scope | None) -> bytes:
    """As protoc serializes them. `kind` is the message that defines options of this element: FieldOptions, ..."""
    if not options:
        return b""
    assert scope is not None  # there is one where there are options
    writer = Writer().raw(b"".join(each.encoded for each in options if each.encoded is not None))
    for option in options:
        if option.encoded is None:
            writer.data(_UNINTERPRETED, _uninterpreted(option))
    message = scope.messages[f"google.protobuf.{kind}"]
    assert isinstance(message, Message)
    return in_order(writer.bytes(), message, scope)


def _uninterpreted(option: Option) -> bytes:
    writer = Writer()
    for part, is_extension in name_parts(option.name):
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
        writer.double(6, _nearest(number))


def _nearest(number: int) -> float:
    """The double that protoc reads: infinity for what is beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def read_options(fields: Fields | None) -> list[Option]:
    """What stands under a number gets its name when names are resolved."""
    options: list[Option] = []
    for number in fields.numbers() if fields is not None else ():
        assert fields is not None
        if number == _UNINTERPRETED:
            options += [_read_uninterpreted(each) for each in fields.messages(number)]
        else:
            options.append(Option("", _NONE, wire=(number, fields.values(number))))
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
