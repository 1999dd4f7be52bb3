"""What the wire refuses: bytes that are not the message they claim to be."""

from headwater.base.errors import ErrorCode, KafkaError


class DecodeError(KafkaError):
    """A truncated or absurd message. Always the peer's doing; the stream behind it cannot be trusted any more."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(code, message)
        self.args = (message, code)  # so that it pickles
