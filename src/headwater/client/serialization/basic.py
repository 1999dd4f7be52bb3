"""The serializers that Kafka brings along, byte for byte, and JSON. Constants; no state.

short, int, long    2, 4 and 8 bytes, big-endian, two's complement
float, double       IEEE 754, big-endian
string              UTF-8 (or the encoding given)
uuid                its text, in UTF-8
boolean             one byte, 0 or 1
void                always null
"""

import json
import uuid
from struct import Struct
from typing import Any, Final, Protocol

Headers = tuple[tuple[str, bytes | None], ...]


class Serde(Protocol):
    """Both directions of one form."""

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None: ...
    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any: ...


class BytesSerde:
    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(f"bytes are wanted, not {type(value).__name__}")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> bytes | None:
        del topic, headers
        return data


class StringSerde:
    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"text is wanted, not {type(value).__name__}")
        return value.encode(self.encoding)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> str | None:
        del topic, headers
        return None if data is None else data.decode(self.encoding)


class NumberSerde:
    """One number of a fixed size."""

    def __init__(self, name: str, form: str) -> None:
        self.name = name
        self._form = Struct(form)

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        if value is None:
            return None
        try:
            return self._form.pack(value)
        except Exception as error:
            raise ValueError(f"{value!r} is not a {self.name} of {self._form.size} bytes") from error

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        del topic, headers
        if data is None:
            return None
        if len(data) != self._form.size:
            raise ValueError(f"a {self.name} has {self._form.size} bytes, not {len(data)}")
        return self._form.unpack(data)[0]


class BooleanSerde:
    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        return None if value is None else b"\1" if value else b"\0"

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> bool | None:
        del topic, headers
        if data is None:
            return None
        if data not in (b"\0", b"\1"):
            raise ValueError(f"a boolean is one byte, 0 or 1, not {data!r}")
        return data == b"\1"


class UuidSerde:
    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        return None if value is None else str(uuid.UUID(str(value))).encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> uuid.UUID | None:
        del topic, headers
        return None if data is None else uuid.UUID(data.decode())


class JsonSerde:
    """Compact UTF-8 without escapes; what other writers make of it is read too."""

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        del topic, headers
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        del topic, headers
        return None if data is None else json.loads(data)


class VoidSerde:
    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> None:
        del topic, headers
        if value is not None:
            raise ValueError(f"nothing is wanted, not {value!r}")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> None:
        del topic, headers
        if data is not None:
            raise ValueError(f"nothing is wanted, not {len(data)} bytes")


BYTES: Final = BytesSerde()
STRING: Final = StringSerde()
SHORT: Final = NumberSerde("short", ">h")
INTEGER: Final = NumberSerde("int", ">i")
LONG: Final = NumberSerde("long", ">q")
FLOAT: Final = NumberSerde("float", ">f")
DOUBLE: Final = NumberSerde("double", ">d")
BOOLEAN: Final = BooleanSerde()
UUID: Final = UuidSerde()
JSON: Final = JsonSerde()
VOID: Final = VoidSerde()
