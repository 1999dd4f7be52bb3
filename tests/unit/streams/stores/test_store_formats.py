"""The bytes of keys in stores and changelogs: those of Kafka Streams."""

import pytest

from headwater.streams.stores import formats


def test_windows_and_sessions() -> None:
    assert formats.window_key(b"k", 1, 2).hex() == "6b" + "0000000000000001" + "00000002"
    assert formats.session_key(b"k", 1, 2).hex() == "6b" + "0000000000000002" + "0000000000000001"
    assert formats.split_window_key(formats.window_key(b"key", 5, 6)) == (b"key", 5, 6)
    assert formats.split_session_key(formats.session_key(b"key", 5, 6)) == (b"key", 5, 6)


def test_timestamped_values() -> None:
    assert formats.stamped(b"v", 258).hex() == "0000000000000102" + "76"
    assert formats.unstamped(formats.stamped(b"v", 258)) == (b"v", 258)


@pytest.mark.parametrize(("prefix", "after"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"", None)])
def test_what_lies_behind_a_prefix(prefix: bytes, after: bytes | None) -> None:
    assert formats.after_prefix(prefix) == after
