"""The functions that a case names: the same as in tests/java/src/StreamsFunctions.java.

A value is a text, a number or None; a key is a text, the window of a text, or None. All texts are ASCII.
"""

import struct
from collections.abc import Callable
from typing import Any

LONGEST = 24


class AnySerde:
    """'L' and eight bytes, or 'S' and UTF-8."""

    name = "any"

    def serialize(self, value: Any) -> bytes:
        return b"L" + struct.pack(">q", value) if isinstance(value, int) else b"S" + value.encode()

    def deserialize(self, data: bytes) -> Any:
        return struct.unpack(">q", data[1:])[0] if data[:1] == b"L" else data[1:].decode()


def key_text(key: Any) -> str:
    if key is None:
        return "null"
    if isinstance(key, str):
        return key
    return f"{key.key}@{key.start}-{key.end}"


def cut(text: str) -> str:
    return text[-LONGEST:]


def text(value: Any) -> str:
    return cut("null" if value is None else str(value))


def size(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else len(value)


def odd(value: Any) -> bool:
    return size(value) % 2 != 0


def add(left: Any, right: Any) -> Any:
    return left + right if isinstance(left, int) and isinstance(right, int) else cut(text(left) + text(right))


def subtract(left: Any, right: Any) -> Any:
    return left - right if isinstance(left, int) and isinstance(right, int) else cut(f"{text(left)}-{text(right)}")


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "even": lambda k, v: not odd(v),
    "short": lambda k, v: len(text(v)) < 3,
    "low_key": lambda k, v: key_text(k) < "c",
    "present": lambda k, v: v is not None,
    "all": lambda k, v: True,
    "none": lambda k, v: False,
}

VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "upper": lambda k, v: text(v).upper(),
    "size": lambda k, v: size(v),
    "increment": lambda k, v: size(v) + 1,
    "tag": lambda k, v: cut(text(v) + "!"),
    "null_odd": lambda k, v: None if odd(v) else v,
    "same": lambda k, v: v,
    "with_key": lambda k, v: cut(f"{key_text(k)}:{text(v)}"),
}

KEYS: dict[str, Callable[[Any, Any], str | None]] = {
    "first": lambda k, v: text(v)[:1] or "-",
    "value": lambda k, v: text(v),
    "parity": lambda k, v: "o" if odd(v) else "e",
    "null_odd": lambda k, v: None if odd(v) else key_text(k),
    "null_null": lambda k, v: None if v is None else text(v)[:1] or "-",
    "longer": lambda k, v: key_text(k) + "x",
    "same": lambda k, v: key_text(k),
}

PAIRS: dict[str, Callable[[Any, Any], list[tuple[Any, Any]]]] = {
    "letters": lambda k, v: [(letter, v) for letter in text(v)[:3]],
    "twice": lambda k, v: [(key_text(k), v), (key_text(k) + "'", v)],
    "drop_odd": lambda k, v: [] if odd(v) else [(key_text(k), v)],
}

MANY_VALUES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "letters": lambda k, v: list(text(v)[:3]),
    "twice": lambda k, v: [v, v],
    "drop_odd": lambda k, v: [] if odd(v) else [v],
    "with_key": lambda k, v: [key_text(k), v],
}

TIMES: dict[str, Callable[[Any, int, int], int]] = {
    "later": lambda v, timestamp, time: timestamp + 7,
    "skip_odd": lambda v, timestamp, time: -1 if odd(v) else timestamp,
    "never_back": lambda v, timestamp, time: max(timestamp, time),
    "by_value": lambda v, timestamp, time: 10 * size(v),
}

REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": add,
    "subtract": subtract,
    "last": lambda left, right: right,
    "first": lambda left, right: left,
    "larger": lambda left, right: left if text(left) >= text(right) else right,
    "null_odd": lambda left, right: None if odd(right) else add(left, right),
}

INITIAL: dict[str, Callable[[], Any]] = {"zero": lambda: 0, "empty": lambda: "", "nothing": lambda: None}

AGGREGATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda k, v, a: size(a) + size(v),
    "difference": lambda k, v, a: size(a) - size(v),
    "join": lambda k, v, a: cut(text(a) + text(v)),
    "cross_out": lambda k, v, a: cut(f"{text(a)}-{text(v)}"),
    "last": lambda k, v, a: v,
    "null_odd": lambda k, v, a: None if odd(v) else cut(text(a) + text(v)),
    "with_key": lambda k, v, a: cut(key_text(k) + text(a) + text(v)),
}

JOINERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pair": lambda k, left, right: cut(f"{text(left)}|{text(right)}"),
    "left": lambda k, left, right: left,
    "right": lambda k, left, right: right,
    "null_odd": lambda k, left, right: None if odd(left) else cut(f"{text(left)}|{text(right)}"),
    "with_key": lambda k, left, right: cut(f"{key_text(k)}:{text(left)}|{text(right)}"),
    "total": lambda k, left, right: size(left) + size(right),
}


def pair(name: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """`first/upper`: the key by the one, the value by the other."""
    key, value = name.split("/")
    return lambda k, v: (KEYS[key](k, v), VALUES[value](k, v))


class WindowText:
    """A windowed key as text, with start and end; only written."""

    name = "window-text"

    def serialize(self, value: Any) -> bytes:
        return key_text(value).encode()

    def deserialize(self, data: bytes) -> Any:
        raise NotImplementedError("a key that is only written")
