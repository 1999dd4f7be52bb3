"""A record as plain Python has it, and the errors of bytes that hold none. Below every reader and writer of records."""

from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class CorruptBatch(KafkaError):
    """A batch that cannot be read, and which offsets it takes up: whoever wants to goes on at `next_offset`.

    The code says why: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE (it decompresses past the limit) or
    UNSUPPORTED_COMPRESSION_TYPE.
    """

    def __init__(self, code: ErrorCode, message: str | None, base_offset: int, last_offset: int) -> None:
        super().__init__(code, message)
        self.args = (code, message, base_offset, last_offset)  # so that it pickles
        self.base_offset = base_offset
        self.last_offset = last_offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


def corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
