"""What clients were told about one partition, and whether all of it can be true together.

I1  what was acknowledged with acks=all is there (`survived`, and the audit at the end of a run)
I2  one offset has one value for ever, as soon as it was acknowledged with acks=all or seen
I3  one value stands at no more than one offset
I6  polls skip nothing and never go back
I15 the ends of the partition only grow

A power loss takes from a topic without `flush.messages=1` what was not on the device. Then `lost` cuts the history back
to what is left; below that nothing may differ. Where what is left ends below the earliest offset, the log begins anew
there, without its producers, as in Apache Kafka: then nothing that was seen is known to be there, and what a producer
sends once more is written once more. The earliest offset may go back when a broker dies, in any topic, as in Apache
Kafka: where DeleteRecords has moved it is written down every minute only, and the new names of deleted segments are not
synced at once.

A broker may answer late, so the ends are compared only with what was known when a question was sent (`Ends`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.records.reader import Record
from headwater.sim.trace import Violation


class Ends(NamedTuple):
    earliest: int
    latest: int


def key_of(value: bytes) -> bytes:
    """Of a value in a compacted topic: few keys, so that compaction finds something to do."""
    return b"k%d" % (int(value.split(b":", 2)[1]) % 4)


class PartitionHistory:
    has_gaps = False  # compaction leaves records out
    may_lose = False  # a leader that was not in sync may be elected: what was acknowledged may be gone
    begins_anywhere = False  # records are deleted, and a new leader may not know of it yet

    def __init__(self, name: str, is_durable: bool) -> None:
        self.name = name
        self.is_durable = is_durable  # flush.messages=1
        self.ends = Ends(0, 0)  # the least that an answer may say from now on
        self.losses = 0  # how often a power loss may have taken something
        self.follower_has: int | None = None  # in a followed partition, by the follower's own account
        self._ended_cleanly = True  # every end of the broker since the partition could last be used
        self._power_was_lost = False
        self._sent: set[bytes] = set()
        self._values: dict[int, bytes] = {}
        self._offsets: dict[bytes, int] = {}
        self.gaps: list[tuple[int, int]] = []  # offsets that a leader may have left out: from one, up to another
        self.tell: Callable[[str], None] | None = None  # of a story

    # Producers

    def sent(self, value: bytes) -> None:
        self._sent.add(value)

    def acknowledged(self, base_offset: int, values: Sequence[bytes]) -> None:
        """With acks=all."""
        if self.tell is not None:
            self.tell(f"{len(values)} records from {base_offset} on are acknowledged: {values[0][:12]!r} and on")
        for offset, value in enumerate(values, base_offset):
            self._learn(offset, value, "acknowledged")
        end = base_offset + len(values)
        self._grow(latest=end)
        if self.follower_has is not None and end > self.follower_has:
            raise Violation(
                f"I1: {self.name} acknowledged up to {end}; its in-sync follower has no more than {self.follower_has}"
            )

    # Consumers

    def read(self, position: int, records: Sequence[Record], high_watermark: int, asked: Ends) -> int:
        """What a fetch from `position` brought, in its order; the next position."""
        self.told_latest(high_watermark, asked, "high watermark")
        wanted = position
        for record in records:
            if record.offset < position:
                continue  # the beginning of a batch that `position` is inside of
            if record.offset != wanted and not self.has_gaps and not self._is_gap(wanted, record.offset):
                raise Violation(f"I6: {self.name} has offset {record.offset} where {wanted} was to come")
            if record.offset >= high_watermark:
                raise Violation(f"{self.name} served offset {record.offset} past the high watermark {high_watermark}")
            value = record.value or b""
            if value not in self._sent:
                raise Violation(f"{self.name} has at {record.offset} what nobody sent there: {value[:40]!r}")
            self._learn(record.offset, value, "read")
            wanted = record.offset + 1
        if self.tell is not None and wanted > position:
            self.tell(f"offsets {position} to {wanted - 1} are read, below a high watermark of {high_watermark}")
        if self.follower_has is not None and wanted > max(self.follower_has, position):
            raise Violation(f"{self.name} was read up to {wanted}; its in-sync follower has {self.follower_has}")
        self._grow(latest=wanted)
        return wanted

    def _is_gap(self, position: int, offset: int) -> bool:
        return any(first <= position and last == offset for first, last in self.gaps)

    def seen(self, offset: int, value: bytes) -> None:
        """By a reader that looks for the order of what it reads by itself."""
        if value not in self._sent:
            raise Violation(f"{self.name} has at {offset} what nobody sent there: {value[:40]!r}")
        self._learn(offset, value, "read")

    # Ends

    def told_latest(self, offset: int, asked: Ends, what: str) -> None:
        if offset < asked.latest:
            raise Violation(f"I15: the {what} of {self.name} went back from {asked.latest} to {offset}")
        self._grow(latest=offset)

    def told_earliest(self, offset: int, asked: Ends) -> None:
        if offset < asked.earliest:
            raise Violation(f"I15: the earliest offset of {self.name} went back from {asked.earliest} to {offset}")
        self._grow(earliest=offset)

    def _grow(self, earliest: int = 0, latest: int = 0) -> None:
        self.ends = Ends(max(self.ends.earliest, earliest), max(self.ends.latest, latest))

    # Restarts

    def broker_ended(self, *, cleanly: bool, power_was_lost: bool) -> None:
        self._ended_cleanly = self._ended_cleanly and cleanly
        self._power_was_lost = self._power_was_lost or power_was_lost

    def survived(self, log_end_offset: int, log_start_offset: int, *, was_emptied: bool = False) -> None:
        """The partition can be used again, and this is what it has. `was_emptied`: the device had nothing of it from
        its earliest offset on, and it has begun anew there.
        """
        if self.tell is not None:
            self.tell(f"is there again, from {log_start_offset} to {log_end_offset}")
        if not self._ended_cleanly:
            self.ends = Ends(0, self.ends.latest)
        if self._power_was_lost:
            self.losses += 1
            if not self.is_durable:
                self._lost(0 if was_emptied else log_end_offset, log_end_offset)
        self._ended_cleanly, self._power_was_lost = True, False
        if log_end_offset < self.ends.latest:
            raise Violation(
                f"I1: {self.name} ends at {log_end_offset} after a restart; clients were told of {self.ends.latest}"
            )
        if log_start_offset < self.ends.earliest:
            raise Violation(
                f"I15: {self.name} begins at {log_start_offset} after a restart; it had begun at {self.ends.earliest}"
            )

    def _lost(self, first: int, end: int) -> None:
        for offset in [offset for offset in self._values if offset >= first]:
            del self._offsets[self._values.pop(offset)]
        self.ends = Ends(0, min(self.ends.latest, end))

    def audited(self, earliest: int, position: int) -> None:
        """The end of a run: a reader went from `earliest` to `position`, the latest offset."""
        missing = [offset for offset in self._values if offset >= position]
        if missing:
            raise Violation(f"I1: {self.name} ends at {position}, and {min(missing)} was acknowledged or seen")
        if earliest > position:
            raise Violation(f"{self.name} begins at {earliest} and ends at {position}")

    def _learn(self, offset: int, value: bytes, how: str) -> None:
        known = self._values.setdefault(offset, value)
        if known != value:
            raise Violation(f"I2: {self.name} at {offset} was {known[:40]!r}, now {how}: {value[:40]!r}")
        place = self._offsets.setdefault(value, offset)
        if place != offset:
            raise Violation(f"I3: {value[:40]!r} stands in {self.name} at {place} and at {offset}")
