"""What must hold between the brokers of a cluster, by their own logs and by what ZooKeeper says is true.

I8  all below any presumed leader's high watermark stands on every member of the true in-sync replicas (after every
    event: that their logs reach so far; at the end: that the bytes are the same, I10)
I9  within a leader epoch the high watermark never goes back
I11 a leader epoch has one presumed leader

A member that was in sync in an earlier life does not count: it has to be taken in again before it does.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headwater.base.ids import PartitionKey, TopicId
from headwater.base.names import INTERNAL_TOPICS
from headwater.log.log import Log
from headwater.records.reader import read_batches, read_records
from headwater.sim.cluster_history import is_compacted
from headwater.sim.cluster_state import StateOfCluster, TrueState
from headwater.sim.trace import Violation

if TYPE_CHECKING:
    from headwater.replication.partition import Partition
    from headwater.sim.cluster_node import ClusterNode

_BYTES_AT_ONCE: Final = 1 << 20


class Presumed:
    """The last that was seen of a leader."""

    __slots__ = ("high_watermark", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.high_watermark = 0


class ClusterChecks:
    def __init__(self, nodes: Iterable["ClusterNode"], state: StateOfCluster) -> None:
        self._nodes = {node.node_id: node for node in nodes}
        self._state = state
        self._presumed: dict[tuple[PartitionKey, int], Presumed] = {}
        self._highest: dict[PartitionKey, int] = {}  # high watermark of its presumed leaders, in the present true state

    def look(self) -> None:
        """At everything: what is true has changed, or processes came and went."""
        self._highest.clear()
        running = [(node.node_id, node.broker.partitions) for node in self._nodes.values() if node.broker is not None]
        for key, state in self._state.partitions.items():
            highest = 0
            for node_id, partitions in running:
                partition = partitions.get(key)
                if partition is not None and partition.is_leader:
                    self._look_at_leader(node_id, key, state, partition)
                    highest = max(highest, partition.high_watermark)
            if highest:
                self._highest[key] = highest
                self._must_have(key, highest, "a leader's high watermark")

    def look_at(self, node: "ClusterNode") -> None:
        """Only this process has run since the last look, and what is true is the same."""
        assert node.broker is not None
        node_id, highest_of, states, presumed_of = node.node_id, self._highest, self._state.partitions, self._presumed
        for key, partition in node.broker.partitions.items():
            if key not in states:
                continue
            highest = highest_of.get(key, 0)
            if partition.is_leader:
                high_watermark = partition.high_watermark
                presumed = presumed_of.get((key, partition.leader_epoch))
                # Mostly it is who it was, and nothing has been committed since.
                if presumed is None or presumed.node_id != node_id or presumed.high_watermark != high_watermark:
                    self._look_at_leader(node_id, key, states[key], partition)
                if high_watermark > highest:
                    highest = highest_of[key] = high_watermark
                    self._must_have(key, highest, "a leader's high watermark")
            if partition.log.log_end_offset < highest:
                self._must_have(key, highest, "a leader's high watermark")

    def _look_at_leader(self, node_id: int, key: PartitionKey, state: TrueState, partition: "Partition") -> None:
        leading = (key, partition.leader_epoch)
        presumed = self._presumed.get(leading)
        if presumed is None:
            presumed = self._presumed[leading] = Presumed(node_id)
        if presumed.node_id != node_id:
            raise Violation(
                f"I11: {presumed.node_id} and {node_id} lead {state.name} in epoch {partition.leader_epoch}"
            )
        if partition.high_watermark < presumed.high_watermark:
            raise Violation(
                f"I9: the high watermark of {state.name} on {node_id} in epoch {partition.leader_epoch} went back "
                f"from {presumed.high_watermark} to {partition.high_watermark}"
            )
        presumed.high_watermark = partition.high_watermark

    def committed(self, topic_id: bytes, index: int, end: int) -> None:
        key = PartitionKey(TopicId(topic_id), index)
        if key in self._state.partitions:
            self._must_have(key, end, "what was acknowledged")

    def _must_have(self, key: PartitionKey, end: int, what: str) -> None:
        if self._state.partitions[key].allows_unclean:
            return
        for node_id in self._state.counting[key]:
            partition = replica_of(self._nodes[node_id], key)
            if partition is not None and partition.log.log_end_offset < end and partition.log.failed is None:
                state = self._state.partitions[key]
                raise Violation(
                    f"I8: {what} in {state.name} is {end}, and {node_id} (in sync are {state.in_sync}) "
                    f"has {partition.log.log_end_offset}"
                )

    # The end of a run

    def unsettled(self) -> str:
        """What is not as it should be when all faults are gone, or nothing."""
        for node in self._nodes.values():
            if not node.is_serving:
                return f"node {node.node_id} does not serve"
            if node.disk.has_failed:
                return f"a directory of node {node.node_id} has failed"
        for key, state in self._state.partitions.items():
            if state.leader < 0:
                return f"{state.name} has no leader"
            if set(state.in_sync) != set(state.replicas) or state.is_moving:
                return f"{state.name} has replicas on {state.replicas}, and in sync are {state.in_sync}"
            replicas = [replica_of(self._nodes[node_id], key) for node_id in state.replicas]
            ends = {None if p is None else (p.log.log_end_offset, p.high_watermark) for p in replicas}
            if len(ends) != 1 or None in replicas:
                return f"the replicas of {state.name} have these ends: {ends}"
            starts = {p.log.log_start_offset for p in replicas if p is not None}
            leader = replica_of(self._nodes[state.leader], key)
            if leader is not None and min(starts) < leader.log.log_start_offset:
                return (
                    f"the replicas of {state.name} begin at {starts}, and the leader at {leader.log.log_start_offset}"
                )
        return next(filter(None, map(self._unlike_the_truth, self._nodes.values())), "")

    def _unlike_the_truth(self, node: "ClusterNode") -> str:
        """The controller writes first and tells the brokers then: for a moment they know of a topic that is gone, or
        keep what was moved away.
        """
        assert node.broker is not None
        states = self._state.partitions
        if set(node.broker.image.topics) != {key.topic_id for key in states}:
            return f"node {node.node_id} knows other topics than there are"
        for key in node.broker.partitions:
            if key not in states or node.node_id not in states[key].replicas:
                name = states[key].name if key in states else key
                return f"node {node.node_id} keeps {name}, and is no replica"
        return ""

    def replicas_are_equal(self) -> None:
        for key, state in self._state.partitions.items():
            replicas = [replica_of(self._nodes[node_id], key) for node_id in state.replicas]
            # One that led may have deleted more than whoever leads now:
            # it was not acknowledged, and does not come back.
            start = max(p.log.log_start_offset for p in replicas if p is not None)
            contents = [_content(p.log, start, p.high_watermark) for p in replicas if p is not None]
            if state.topic in INTERNAL_TOPICS or is_compacted(state.topic):  # each broker compacts by itself
                different = _records_differ([_records(content) for content in contents])
            else:
                different = "" if len(set(contents)) == 1 else "byte for byte"
            if different:
                raise Violation(f"I10: the replicas of {state.name} on {state.replicas} differ: {different}")


def replica_of(node: "ClusterNode", key: PartitionKey) -> "Partition | None":
    return None if node.broker is None else node.broker.partitions.get(key)


def _content(log: Log, start: int, end: int) -> bytes:
    """Its bytes from `start` to `end`."""
    content = bytearray()
    offset = start
    while offset < end:
        piece = log.read(offset, _BYTES_AT_ONCE, end, min_one_batch=True)
        assert piece is not None
        data = piece.read()
        piece.release()
        content += data
        offset = _next_offset(data)
    return bytes(content)


Records = dict[int, tuple[bytes | None, bytes | None, bool]]  # offset -> key, value, whether a transaction wrote it


def _records(content: bytes) -> Records:
    """Without those of control batches: markers stay behind when what they end is compacted away."""
    found: Records = {}
    for at, header in read_batches(content):
        if not header.is_control:
            batch = content[at : at + header.size_bytes]
            for record in read_records(batch, _BYTES_AT_ONCE):
                found[record.offset] = (record.key, record.value, header.is_transactional)
    return found


def _records_differ(replicas: list[Records]) -> str:
    """In what stands on several of them, or in what is the last under its key: compaction drops only other ones,
    deletions, and what was aborted, so keys that transactions wrote are left out.
    """
    known: Records = {}
    for records in replicas:
        for offset, record in records.items():
            if known.setdefault(offset, record) != record:
                return f"at {offset}"
    latest = [{key: value for _, (key, value, _) in sorted(records.items())} for records in replicas]
    for key in {key: None for _, (key, _, _) in sorted(known.items())}:
        if len({each.get(key) for each in latest}) > 1 and (key, True) not in {
            (each[0], each[2]) for each in known.values()
        }:
            return f"in what is last under {key!r}"
    return ""


def _next_offset(data: bytes) -> int:
    last = 0
    for _, header in read_batches(data):
        last = header.last_offset + 1
    return last
