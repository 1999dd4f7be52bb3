"""Requests as a hostile client sends them: whole ones with plausible or absurd values, and what can be done to their
bytes.

A request is made from its schema and a number, so that the same number gives the same bytes. The names in it are often
those of things that exist (`Known`), or else every request would end at its first look-up.
"""

import random
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.broker.registry import APIS
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import encode_request_header
from headwater.wire.registry import request_class
from headwater.wire.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Array, Field, FieldType, FixedType

NOW_MS: Final = 1_700_000_000_000
STRINGS: Final = (
    "", ".", "..", "../x", "/etc/passwd", "a\x00b", "a\r\nlevel=error event=forged", "<script>alert(1)</script>", "grün",
    "x" * 249, "x" * 250, "x" * 32_767, "%s%n", "*", "[", "(a*)*", "\x7f\x1b[2J", "\U0001f600", "-1", "2147483648", "null",
    "__consumer_offsets", "__transaction_state", "range", "consumer", "uniform", "compression.type", "cleanup.policy",
)  # fmt: skip
BLOBS: Final = (b"", b"\x00", b"\xff" * 9, bytes(200), b"\x00\x03" + b"\xff" * 20)
EDGES: Final = {
    "b": (-128, -2, -1, 0, 1, 2, 127),
    "h": (-32768, -2, -1, 0, 1, 2, 7, 32767),
    "H": (0, 1, 65535),
    "i": (-(2**31), -2, -1, 0, 1, 2, 100, 2**31 - 1),
    "I": (0, 1, 2**32 - 1),
    "q": (-(2**63), -5, -4, -3, -2, -1, 0, 1, 1000, NOW_MS, 2**63 - 1),
}


@dataclass
class Known:
    """Names and numbers that mean something to the broker, by the kind of field that holds them."""

    topics: list[str]
    topic_ids: list[bytes]
    groups: list[str]
    members: list[str] = field(default_factory=list)
    transactions: list[str] = field(default_factory=lambda: ["payments"])


class Maker:
    """Makes the bodies of requests; `chance` decides all of it."""

    def __init__(self, known: Known, chance: random.Random, *, mild: bool) -> None:
        self._known = known
        self._chance = chance
        self._absurd = 0.02 if mild else 0.25  # how often a value is not a plausible one

    def request(self, key: int, version: int) -> bytes:
        return b"".join(bytes(chunk) for chunk in self._struct(request_class(key), version).encode(version))

    def _struct(self, cls: type[Any], version: int) -> Any:
        return cls(**{each.name: self._field(each, version) for each in cls.FIELDS if each.in_version(version)})

    def _field(self, declared: Field, version: int) -> Any:
        if declared.nullable_in(version) and self._chance.random() < 0.2:
            return None
        return self._value(declared.type, version, declared.name)

    def _value(self, type_: FieldType, version: int, name: str) -> Any:
        if isinstance(type_, Array):
            count = self._chance.choice((0, 1, 1, 1, 2, 3))
            return [self._value(type_.element, version, name) for _ in range(count)]
        if isinstance(type_, type):
            return self._struct(type_, version)
        if type_ is STRING:
            return self._string(name)
        if type_ is RECORDS:
            return self._records()
        if type_ is BYTES:
            return self._chance.choice(BLOBS)
        if type_ is UUID:
            return self._chance.choice([*self._known.topic_ids, bytes(16), b"\xff" * 16])
        if type_ is BOOL:
            return self._chance.random() < 0.5
        if type_ is FLOAT64:
            return self._chance.choice((0.0, -1.0, float("inf"), float("nan"), 1e308))
        assert isinstance(type_, FixedType)
        return self._number(type_, name)

    def _string(self, name: str) -> str:
        if self._chance.random() < self._absurd:
            return self._chance.choice(STRINGS)
        known = self._known
        if "member" in name:
            return self._chance.choice([*known.members, "", "nobody"])
        if "transactional" in name:
            return self._chance.choice([*known.transactions, "unknown"])
        if "topic" in name or name == "name":
            return self._chance.choice([*known.topics, "unknown"])
        return self._chance.choice([*known.groups, *known.topics, *known.transactions, "range", "consumer", "0", "1"])

    def _number(self, type_: FixedType, name: str) -> int:
        if self._chance.random() < self._absurd:
            return self._chance.choice(EDGES[type_.format])
        if name.endswith("_ms") and type_.format in "iq":
            return self._chance.choice((0, 1, 100, 6000))
        return self._chance.choice((-1, 0, 0, 0, 1, 1, 2, 3)) if type_.format not in "HI" else 0

    def _records(self) -> bytes:
        count = self._chance.choice((1, 1, 2, 50))
        codec = self._chance.choice((0, 0, 1, 2, 3, 4))
        records = [Record(at, NOW_MS, b"k%d" % at, bytes(at), []) for at in range(count)]
        data = bytearray(build_batch(records, codec=codec))
        return damaged(data, self._chance) if self._chance.random() < 0.5 else bytes(data)


def damaged(data: bytearray, chance: random.Random) -> bytes:
    """A batch with a few bytes changed, cut off or doubled; half of the time its CRC is made right again."""
    from headwater.records.batch import HEADER_BYTES, crc_of

    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data)) if chance.random() < 0.5 else chance.randrange(HEADER_BYTES)
        at = min(at, len(data) - 1)
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    if chance.random() < 0.1:
        del data[chance.randrange(1, len(data)) :]
    elif chance.random() < 0.1:
        data += bytes(data)
    if len(data) >= HEADER_BYTES and chance.random() < 0.5:
        struct.pack_into(">I", data, 17, crc_of(data))
    return bytes(data)


def served() -> list[tuple[int, int]]:
    """Every API and version that clients are told of."""
    return [(api.key, v) for api in APIS.values() for v in range(api.advertises[0], api.advertises[1] + 1)]


def whole(key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str | None = "hostile") -> bytes:
    """A frame with its length."""
    data = encode_request_header(key, version, correlation_id, client_id) + body
    return struct.pack(">i", len(data)) + data


HEAD_BYTES: Final = 12  # length, key, version, correlation id: damage there is looked at by other tests
LIES: Final = (
    b"\xff", b"\x00", b"\x80", b"\x7f", b"\xff\xff", b"\x7f\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x80", b"\xc0\x80", b"\xed\xa0\x80",
)  # fmt: skip
"""Lengths and counts that are negative or huge, varints that are too long or have no end, what is no UTF-8."""

KINDS: Final = ("overwrite", "insert", "remove", "cut", "repeat")


def mutated(frame: bytes, kind: str, where: int, what: int) -> bytes:
    """One thing done to a frame, whose length prefix is right again afterwards.
    `where` and `what` may be any numbers.
    """
    head, body = frame[4:HEAD_BYTES], bytearray(frame[HEAD_BYTES:])
    at = max(where % (len(body) + 1), where % 16)  # the client id is there in every request: seldom there
    lie = LIES[what % len(LIES)]
    if kind == "overwrite":
        body[at : at + len(lie)] = lie
    elif kind == "insert":
        body[at:at] = lie
    elif kind == "remove":
        del body[at : at + 1 + what % 8]
    elif kind == "cut":
        del body[at:]
    elif kind == "repeat":
        body[at:at] = body[at : at + 64] * (1 + what % 50)
    return struct.pack(">i", len(head) + len(body)) + head + bytes(body)
