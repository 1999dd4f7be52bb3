"""Bytes of every message and version, both ways, against kio, kafka-python and the plain reference encoder."""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.wire.errors import DecodeError
from headwater.wire.schema import Message
from unit.wire.support import kafka_python_oracle as kafka_python
from unit.wire.support import kio_oracle as kio
from unit.wire.support import reference
from unit.wire.support.values import all_messages, messages, versions_of

every_message = pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
few = settings(
    max_examples=4,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # an example holds all versions: shrinking it takes minutes
    suppress_health_check=list(HealthCheck),
)


@every_message
@few
@given(data=st.data())
def test_bytes_are_those_of_the_oracles_and_decode_to_the_same(cls: type[Message], data: st.DataObject) -> None:
    for version in versions_of(cls):
        message = data.draw(messages(cls, version), label=f"v{version}")
        encoded = b"".join(message.encode(version))
        assert encoded == reference.encode(message, version)
        theirs = kio.kio_class(cls, version)
        if theirs is not None:
            assert encoded == kio.encode(theirs, message)
        assert cls.decode(bytearray(encoded), 0, version) == message
        _compare_with_kafka_python(cls, message, version, encoded)


def _compare_with_kafka_python(cls: type[Message], message: Any, version: int, encoded: bytes) -> None:
    if not kafka_python.comparable(message, version):
        return
    theirs: Any = kafka_python.kafka_python_class(cls)
    decoded = theirs.decode(encoded, version=version)
    assert kafka_python.same(message, decoded, version)
    decoded._header = None  # or it refuses to encode what it decoded
    assert bytes(decoded.encode(version=version)) == encoded


@every_message
@few
@given(data=st.data())
def test_a_damaged_message_is_decoded_or_refused_but_nothing_else(cls: type[Message], data: st.DataObject) -> None:
    for version in versions_of(cls):
        encoded = bytearray(b"".join(data.draw(messages(cls, version)).encode(version)))
        for _ in range(data.draw(st.integers(1, 3))):
            if encoded:
                encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(DecodeError):
            cls.decode(encoded, 0, version)


@every_message
@few
@given(noise=st.binary(max_size=60))
def test_noise_is_decoded_or_refused_but_nothing_else(cls: type[Message], noise: bytes) -> None:
    for version in versions_of(cls):
        with contextlib.suppress(DecodeError):
            cls.decode(noise, 0, version)
