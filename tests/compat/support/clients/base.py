"""What the matrix asks of a client: produce, consume by assign, and where a partition begins and ends.

Each adapter uses its library as a user would, with the library's own defaults where a test does not say otherwise.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 90


@dataclass(frozen=True)
class Message:
    """What is sent. A timestamp of None leaves it to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


@dataclass(frozen=True)
class Received:
    """What came back, in one shape for all clients. `create` tells create time from log-append time."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1
    create: bool = True
    leader_epoch: int | None = field(default=None, compare=False)

    @property
    def content(self) -> tuple[object, ...]:
        return (self.key, self.value, self.headers)


class Start(NamedTuple):
    """Where to begin to read: beginning, end, tail (n before the end), offset, timestamp;
    an epoch asks for validation.
    """

    kind: str
    value: int = 0
    epoch: int | None = None


BEGINNING = Start("beginning")


@dataclass(frozen=True)
class Sending:
    """How to produce. A partition of None leaves it to the client; a Java producer with a handle stays open."""

    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    partition: int | None = 0
    max_request_bytes: int = 1_000_000
    handle: str = ""


@dataclass(frozen=True)
class Reading:
    """How to consume. `committed` is isolation level read_committed."""

    start: Start = BEGINNING
    partition: int = 0
    committed: bool = False


def content(message: Message) -> tuple[object, ...]:
    return (message.key, message.value, message.headers)


class Positions(NamedTuple):
    beginning: int
    end: int


class ClientError(Exception):
    """A library's error, by Kafka's error code where the library tells it, else by what it says."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Client(ABC):
    name: ClassVar[str]
    sets_timestamps: ClassVar[bool] = True
    null_header_values: ClassVar[bool] = True

    def __init__(self, java: Any) -> None:
        self.java = java

    def produce(self, bootstrap: str, topic: str, messages: list[Message], **options: Any) -> list[int]:
        """Sends all and waits for the answers: the offsets (none where the client does not tell). See `Sending`."""
        return self.send(bootstrap, topic, messages, Sending(**options))

    def consume(self, bootstrap: str, topic: str, count: int, **options: Any) -> list[Received]:
        """`count` records, or what there is after TIMEOUT_S. See `Reading`."""
        return self.read(bootstrap, topic, count, Reading(**options))

    @abstractmethod
    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]: ...

    @abstractmethod
    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]: ...

    @abstractmethod
    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions: ...
