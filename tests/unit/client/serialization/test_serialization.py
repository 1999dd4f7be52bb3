"""Serializers: Java's bytes, both directions, nulls, and what they refuse."""

import json
import uuid
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client import serialization
from headwater.client.serialization import deserializer_for, serializer_for

SOME_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"\0\1", b"\0\1"),
        ("string", "grüße", "grüße".encode()),
        ("short", -2, b"\xff\xfe"),
        ("int", 258, b"\0\0\1\2"),
        ("long", -1, b"\xff" * 8),
        ("float", 1.5, b"\x3f\xc0\0\0"),
        ("double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("boolean", True, b"\1"),
        ("uuid", SOME_ID, str(SOME_ID).encode()),
        ("json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
    ],
)
def test_values_and_bytes(name: str, value: Any, data: bytes) -> None:
    serialize, deserialize = serializer_for(name), deserializer_for(name)
    assert serialize is not None
    assert serialize("t", value, ()) == data
    assert serialize("t", None, ()) is None
    if deserialize is not None:  # bytes stay as they are
        assert deserialize("t", data, ()) == value
        assert deserialize("t", None, ()) is None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("int", b"\0\0\1"),
        ("long", b""),
        ("boolean", b"\2"),
        ("string", b"\xff"),
        ("json", b"{"),
        ("uuid", b"x"),
        ("void", b"x"),
    ],
)
def test_bytes_that_are_not_of_the_form(name: str, data: bytes) -> None:
    deserialize = deserializer_for(name)
    assert deserialize is not None
    with pytest.raises(ValueError):
        deserialize("t", data, ())


@pytest.mark.parametrize(
    ("name", "value"), [("int", 1 << 31), ("short", "x"), ("string", 5), ("bytes", "x"), ("void", 1)]
)
def test_values_that_are_not_of_the_form(name: str, value: Any) -> None:
    serialize = serializer_for(name)
    assert serialize is not None
    with pytest.raises((TypeError, ValueError)):
        serialize("t", value, ())


def test_javas_class_names_are_understood() -> None:
    deserialize = deserializer_for("org.apache.kafka.common.serialization.StringDeserializer")
    assert deserialize is not None
    assert deserialize("t", b"x", ()) == "x"
    assert deserializer_for("org.apache.kafka.common.serialization.ByteArrayDeserializer") is None
    serialize = serializer_for("org.apache.kafka.common.serialization.IntegerSerializer")
    assert serialize is not None
    assert serialize("t", 1, ()) == b"\0\0\0\1"


def test_functions_objects_and_classes_serve() -> None:
    class Shouting:
        def deserialize(self, topic: str, data: bytes | None, headers: Any) -> str:
            return f"{topic}:{data!r}:{headers}"

        def serialize(self, topic: str, value: Any, headers: Any) -> bytes:
            return f"{topic}{value}".upper().encode()

    for given in (Shouting(), Shouting):
        deserialize, serialize = deserializer_for(given), serializer_for(given)
        assert deserialize is not None
        assert serialize is not None
        assert deserialize("t", None, ()) == "t:None:()"
        assert serialize("t", "x", ()) == b"TX"
    function = deserializer_for(json.loads)
    assert function is not None
    assert (function("t", b"[1]", ()), function("t", None, ())) == ([1], None)


@pytest.mark.parametrize("given", ["yaml", 5, object()])
def test_what_cannot_serve_is_explained(given: object) -> None:
    with pytest.raises(UserError):
        deserializer_for(given, "key.deserializer")
    with pytest.raises(UserError):
        serializer_for(given)


def test_the_constants_are_both_directions() -> None:
    assert serialization.LONG.deserialize("t", serialization.LONG.serialize("t", 77)) == 77
    assert deserializer_for(serialization.BYTES) is None
