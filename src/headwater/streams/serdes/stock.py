"""The serdes that need nothing but the standard library. Numbers are Kafka's: big-endian, fixed width."""

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from headwater.streams.serdes.native_cells import native_cells
from headwater.streams.serdes.port import Serde, SerdeError

_decode: Final = json.JSONDecoder().decode
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class FunctionSerde:
    """A pair of functions under a name."""

    __slots__ = (
        "check_all",
        "deserialize",
        "deserialize_all",
        "deserialize_quickly",
        "exact",
        "name",
        "record_type",
        "serialize",
        "serialize_all",
    )

    def __init__(self, name: str, serialize: Callable[[Any], bytes], deserialize: Callable[[bytes], Any]) -> None:
        self.name = name
        self.serialize = serialize
        self.deserialize = deserialize
        self.exact = False  # what it reads it writes again as the same bytes, and it never reads None
        self.record_type: type | None = None  # of typed records: what it reads
        self.deserialize_all: Callable[[list[bytes | None]], list[Any]] | None = None
        self.check_all: Callable[[list[bytes | None]], Any] | None = None
        self.serialize_all: Callable[[list[Any]], list[bytes | None]] | None = None  # of objects that do not change
        self.deserialize_quickly: Callable[[bytes], Any] | None = None  # whose error says less

    def __repr__(self) -> str:
        return f"<serde {self.name}>"


def _same(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise SerdeError(f"the serde is bytes and the object is {_kind(value)}")
    return bytes(value)


def _encode_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise SerdeError(f"the serde is text and the object is {_kind(value)}")
    return value.encode()


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SerdeError(f"not text in UTF-8: {error.reason} at byte {error.start}") from None


def _decode_texts(cells: list[bytes | None]) -> list[str | None]:
    if None in cells:
        return [None if cell is None else cell.decode() for cell in cells]
    return list(map(bytes.decode, cells))  # type: ignore[arg-type]


def _encode_texts(values: list[str | None]) -> list[bytes | None]:
    """Raises TypeError where one is no text."""
    if None in values:
        return [None if value is None else str.encode(value) for value in values]
    return list(map(str.encode, values))  # type: ignore[arg-type]


def _check_texts(cells: list[bytes | None]) -> None:
    """No sequence of UTF-8 goes over a newline: together they are text if each is."""
    b"\n".join([cell for cell in cells if cell is not None] if None in cells else cells).decode()  # type: ignore[arg-type]


def _number(name: str, shape: str, kind: type) -> FunctionSerde:
    packer = struct.Struct(shape)
    pack, unpack, size = packer.pack, packer.unpack, packer.size

    def serialize(value: Any) -> bytes:
        try:
            return pack(value)
        except struct.error:
            what = f"{value!r} is out of its range" if isinstance(value, kind) else f"the object is {_kind(value)}"
            raise SerdeError(f"the serde is {name} and {what}") from None

    def deserialize(data: bytes) -> Any:
        if len(data) != size:
            raise SerdeError(f"a {name} has {size} bytes, and these are {len(data)}")
        return unpack(data)[0]

    return FunctionSerde(name, serialize, deserialize)


def _encode_json(value: Any) -> bytes:
    try:
        return _encode(value).encode()
    except (TypeError, ValueError) as error:
        raise SerdeError(f"no JSON can be made of {_kind(value)}: {error}") from None


def _decode_json(data: bytes) -> Any:
    try:
        return _decode(data.decode())
    except ValueError as error:
        raise SerdeError(f"not JSON: {error}") from None


def _void(value: Any) -> bytes:
    raise SerdeError(f"the serde is void, and here is {_kind(value)}")


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


BYTES: Final = FunctionSerde("bytes", _same, bytes)
TEXT: Final = FunctionSerde("text", _encode_text, _decode_text)
SHORT: Final = _number("short", ">h", int)
INT: Final = _number("int", ">i", int)
LONG: Final = _number("long", ">q", int)
FLOAT: Final = _number("float", ">f", float)
DOUBLE: Final = _number("double", ">d", float)
JSON: Final = FunctionSerde("json", _encode_json, _decode_json)
VOID: Final = FunctionSerde("void", _void, _void)

for _serde in (BYTES, TEXT, SHORT, INT, LONG):
    _serde.exact = True
TEXT.deserialize_all, TEXT.check_all = _decode_texts, _check_texts
TEXT.serialize_all, TEXT.deserialize_quickly = _encode_texts, bytes.decode
_native: Final = native_cells()
if _native is not None:
    TEXT.deserialize_all, TEXT.check_all = _native.read_texts, _native.check_texts

_STOCK: Final[tuple[Serde, ...]] = (BYTES, TEXT, SHORT, INT, LONG, FLOAT, DOUBLE, JSON, VOID)
BY_NAME: Final[dict[str, Serde]] = {serde.name: serde for serde in _STOCK} | {"string": TEXT}
BY_TYPE: Final[dict[type, Serde]] = {bytes: BYTES, str: TEXT, int: LONG, float: DOUBLE, dict: JSON, list: JSON}
