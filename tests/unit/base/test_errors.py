"""The errors that cross layers."""

import pickle

from headwater.base.errors import MESSAGE_CHARACTERS_MAX, ErrorCode, KafkaError


def test_a_message_that_quotes_a_peer_does_not_grow_with_what_it_sent() -> None:
    """It goes into answers, where a string has 32,767 bytes at most, and into log lines."""
    long = KafkaError(ErrorCode.INVALID_CONFIG, "ö" * 100_000)
    assert long.message is not None
    assert len(long.message) <= MESSAGE_CHARACTERS_MAX + 3
    assert long.message.endswith("ö...")
    assert KafkaError(ErrorCode.INVALID_CONFIG, "x" * MESSAGE_CHARACTERS_MAX).message == "x" * MESSAGE_CHARACTERS_MAX
    assert pickle.loads(pickle.dumps(long)).message == long.message
