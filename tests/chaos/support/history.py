"""What clients were told about one topic, and whether all of it can be true together. Pure: no client, no clock.

Values are different from each other, so a value tells where it came from. What one partition has at an offset is
checked as in a simulated cluster, by the same code (`headwater.sim.history`). Checked, by their names in `Kind`:

- LOST: an acknowledged record is not there in the end
- CHANGED: an offset had two values, for whoever was told of it: by an acknowledgement, a read, or a replica's file
- TWICE: a value of an idempotent producer stands at two offsets
- INVENTED: a value was read that nobody sent
- ABORTED: a reader of committed records got one of an aborted transaction
- DISORDER: values of one sender stand in another order than they were sent
- BACKWARDS: within one assignment a reader went back, or skipped something that is there
- OFFSET_BACK: a committed offset went back
- UNEQUAL: replicas differ below the high watermark
- EPOCH_BACK: the leader epoch in a log went back
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from headwater.sim.history import PartitionHistory
from headwater.sim.trace import Violation as SimulatedViolation


class Kind(Enum):
    LOST = auto()
    CHANGED = auto()
    TWICE = auto()
    INVENTED = auto()
    ABORTED = auto()
    DISORDER = auto()
    BACKWARDS = auto()
    OFFSET_BACK = auto()
    UNEQUAL = auto()
    EPOCH_BACK = auto()


_KINDS = {"I1": Kind.LOST, "I2": Kind.CHANGED, "I3": Kind.TWICE}


@dataclass(frozen=True, slots=True)
class Violation:
    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Of a replica's file: everything that is written, as it is written."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    content: bytes


@dataclass
class History:
    """`sent`, `acknowledged`, `read` and `committed` while clients run;
    the rest when they are done and all is healed.
    """

    sent_by: dict[bytes, str] = field(default_factory=dict)  # value -> its sender, in the order of sending
    aborted: set[bytes] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)
    twice: list[tuple[int, int]] = field(default_factory=list)  # partitions and offsets of what stands there twice
    _acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _somewhere: list[tuple[int, bytes]] = field(default_factory=list)  # acknowledged without an offset
    _partitions: dict[int, PartitionHistory] = field(default_factory=dict)
    _reads: dict[str, dict[int, list[list[int]]]] = field(default_factory=dict)  # reader, partition, assignments
    _committed: dict[tuple[str, int], int] = field(default_factory=dict)

    # While clients run

    def sent(self, sender: str, value: bytes) -> None:
        assert value not in self.sent_by, "values must differ"
        self.sent_by[value] = sender

    def acknowledged(self, partition: int, offset: int | None, value: bytes) -> None:
        """Without an offset: a producer sent it again, and was told that it is there already."""
        if offset is None:
            self._somewhere.append((partition, value))
            return
        self._acknowledged[partition, offset] = value
        self._stands_at(partition, offset, value, "was acknowledged")

    def assigned(self, reader: str, partition: int) -> None:
        """From here on, and up to the next of this, what this reader gets of the partition has no gap
        and no way back.
        """
        self._reads.setdefault(reader, {}).setdefault(partition, []).append([])

    def read(self, reader: str, partition: int, offset: int, value: bytes) -> None:
        self._stands_at(partition, offset, value, f"was read by {reader}")
        self._reads[reader][partition][-1].append(offset)

    def committed(self, group: str, partition: int, offset: int) -> None:
        """As somebody was told by the coordinator; -1 is none."""
        before = self._committed.get((group, partition), -1)
        if offset < before:
            self._found(Kind.OFFSET_BACK, f"the offset of {group} in partition {partition}: {before}, then {offset}")
        self._committed[group, partition] = offset

    def last_committed(self, group: str, partition: int) -> int:
        return self._committed.get((group, partition), -1)

    # In the end

    def ended(self, logs: Mapping[int, Sequence[tuple[int, bytes]]]) -> None:
        """All that a reader of committed records finds, partition by partition, from the beginning to the end."""
        places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for partition, records in logs.items():
            for offset, value in records:
                self._stands_at(partition, offset, value, "is there in the end")
                places[value].append((partition, offset))
        for (partition, offset), value in self._acknowledged.items():
            if (partition, offset) not in places.get(value, ()) and value not in self.aborted:
                self._found(
                    Kind.LOST, f"{value!r} was acknowledged at {partition}:{offset} and stands at {places[value]}"
                )
        for partition, value in self._somewhere:
            if partition not in {place[0] for place in places.get(value, ())} and value not in self.aborted:
                self._found(Kind.LOST, f"{value!r} was acknowledged in {partition} and stands at {places[value]}")
        for value, found in places.items():
            if len(found) > 1:
                self._found(Kind.TWICE, f"{value!r} stands at {found}")
                self.twice.extend(found)
            if value not in self.sent_by:
                self._found(Kind.INVENTED, f"{value!r} at {found} was never sent")
            if value in self.aborted:
                self._found(Kind.ABORTED, f"{value!r} at {found} was aborted")
        self._check_order(logs)
        self._check_readers(logs)

    def replicas(self, partition: int, high_watermark: int, files: Mapping[int, Sequence[Batch]]) -> None:
        """What the files of each broker hold of a partition, when all its replicas are in sync."""
        contents = {}
        for broker, batches in files.items():
            below = [batch for batch in batches if batch.base_offset < high_watermark]
            contents[broker] = b"".join(batch.content for batch in below)
            epochs = [batch.leader_epoch for batch in below]
            if epochs != sorted(epochs):
                self._found(Kind.EPOCH_BACK, f"partition {partition} on broker {broker}: {epochs}")
            if (below[-1].last_offset + 1 if below else 0) != high_watermark:
                self._found(Kind.LOST, f"partition {partition} on broker {broker} ends before {high_watermark}")
        if len(set(contents.values())) > 1:
            self._found(Kind.UNEQUAL, f"partition {partition}: {_first_difference(files, high_watermark)}")

    def check(self) -> None:
        assert not self.violations, self.told()

    def told(self) -> str:
        shown = "\n".join(f"{one.kind.name}: {one.what}" for one in self.violations[:20])
        return f"{len(self.violations)} violations:\n{shown}"

    # How

    def _of(self, partition: int) -> PartitionHistory:
        return self._partitions.setdefault(partition, PartitionHistory(f"partition {partition}", is_durable=False))

    def _stands_at(self, partition: int, offset: int, value: bytes, how: str) -> None:
        history = self._of(partition)
        history.sent(value)  # who sent it, if anybody did, is looked at in the end
        self._judged(Kind.CHANGED, lambda: history.seen(offset, value), how)

    def _judged(self, kind: Kind, look: Callable[[], None], how: str = "") -> None:
        try:
            look()
        except SimulatedViolation as violation:
            found = _KINDS.get(str(violation).split(":")[0], kind)
            if found is not Kind.TWICE:  # which is told in the end, with all its places
                self._found(found, f"{violation} {how}".rstrip())

    def _check_order(self, logs: Mapping[int, Sequence[tuple[int, bytes]]]) -> None:
        numbers = {value: number for number, value in enumerate(self.sent_by)}
        for partition, records in logs.items():
            last: dict[str, bytes] = {}
            for _, value in records:
                sender = self.sent_by.get(value)
                if sender is None:
                    continue
                if sender in last and numbers[value] < numbers[last[sender]]:
                    self._found(Kind.DISORDER, f"partition {partition}: {value!r} stands behind {last[sender]!r}")
                last[sender] = value

    def _check_readers(self, logs: Mapping[int, Sequence[tuple[int, bytes]]]) -> None:
        for reader, partitions in self._reads.items():
            for partition, assignments in partitions.items():
                there = [offset for offset, _ in logs.get(partition, ())]  # in their order
                for offsets in filter(None, assignments):
                    expected = there[bisect_left(there, offsets[0]) : bisect_right(there, max(offsets))]
                    if offsets != expected:
                        self._found(Kind.BACKWARDS, f"{reader} in partition {partition}: {_about(offsets, expected)}")

    def _found(self, kind: Kind, what: str) -> None:
        self.violations.append(Violation(kind, what))


def _about(offsets: list[int], expected: list[int]) -> str:
    place = next((i for i, pair in enumerate(zip(offsets, expected, strict=False)) if pair[0] != pair[1]), 0)
    return f"read {offsets[max(place - 2, 0) : place + 3]} where {expected[max(place - 2, 0) : place + 3]} stand"


def _first_difference(files: Mapping[int, Sequence[Batch]], high_watermark: int) -> str:
    by_offset: dict[int, dict[int, Batch]] = defaultdict(dict)
    for broker, batches in files.items():
        for batch in batches:
            by_offset[batch.base_offset][broker] = batch
    for offset in sorted(by_offset):
        found = by_offset[offset]
        if offset < high_watermark and (len(found) < len(files) or len({one.content for one in found.values()}) > 1):
            told = {broker: (one.last_offset, one.leader_epoch, len(one.content)) for broker, one in found.items()}
            return f"from offset {offset} on; last offset, leader epoch and size by broker: {told}"
    return "in their order"
