"""Runs of records through the functions of a task's sources, merged by time as `PartitionGroup` merges them. Owned by
one task.

A run ends where another input has the next record by time, and before a record that may make segments of a window store
expire: that one goes through the nodes. When a run fails, nothing of it has happened, and what is buffered goes through
the nodes, which tell what is wrong. A function of the user may have been called for records of such a run; it is called
again.
"""

import dataclasses
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.lane.code import NotInLane
from headwater.streams.engine.lane.compiler import Compiled, Compiler
from headwater.streams.engine.lane.counting import cached_counting_run, counting_run
from headwater.streams.engine.partition_group import PartitionQueue
from headwater.streams.stores.segments import Segments

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task

_MOST_INPUTS: Final = 2  # of more, ties have an order that only the heap itself knows
_LONG_ENOUGH: Final = 64  # a run of one source among those of others: below, the loop over all is quicker
NEVER: Final = (1 << 63) - 1

Head = tuple[PartitionQueue, Chunk]


class Lane:
    def __init__(self, task: "Task", compiled: Compiled) -> None:
        self._task = task
        self.compiled = compiled

    def takes(self, chunk: Chunk) -> bool:
        """Whether it may stay a chunk. Where inputs are merged, what cannot be read must not have a place in their
        order: nodes see to that.
        """
        if not chunk.plain or not self._ready():
            return False
        if len(self._task.group.queues) == 1:
            return True
        check_keys, check_values = self.compiled.checks[self.compiled.source_of[chunk.topic]]
        try:
            check_keys(chunk.keys)
            check_values(chunk.values)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            return False
        return True

    def _ready(self) -> bool:
        return all(need() for need in self.compiled.needs)

    def step(self, most: int) -> int:
        """The next run, or one record through the nodes; how many. 0: there is none, or the run failed and all is
        records now.
        """
        group, compiled = self._task.group, self.compiled
        heads = [(queue, queue.chunks[0]) for queue in group.in_order()]
        if not heads:
            return 0
        order = _merged([(chunk.timestamps, chunk.at) for _, chunk in heads], most)
        order = self._of_one_source(heads, self._before_expiry(heads, order))
        if not order:
            self._by_nodes(*heads[0])
            return 1
        counts = [order.count(place) for place in range(len(heads))]
        columns: list[Any] = [[]] * (3 * len(compiled.expiries))
        sources = [compiled.source_of[queue.topic_partition[0]] for queue, _ in heads]
        if len(set(sources)) < len(sources) or not self._ready():
            group.leave_columns()
            return 0
        latest = -1
        for source, (_, chunk), count in zip(sources, heads, counts, strict=True):
            begin, end = chunk.at, chunk.at + count
            times = chunk.timestamps[begin:end]
            columns[3 * source : 3 * source + 3] = chunk.keys[begin:end], chunk.values[begin:end], times
            latest = max(latest, max(times, default=-1))
        try:
            with _no_collections():
                self._run(order, sources, columns)
        except Exception:  # noqa: BLE001 - whatever it was: it happens again, where it can be told
            group.leave_columns()
            return 0
        self._task.observe(latest)
        for (queue, chunk), count in zip(heads, counts, strict=True):
            if count:
                queue.took(chunk, chunk.at + count)
        self._arrange(heads, order)
        return len(order)

    def _run(self, order: bytes, sources: list[int], columns: list[Any]) -> None:
        first = sources[order[0]]
        chain = self.compiled.chains[first] if order.count(order[0]) == len(order) else None
        if chain is not None and chain(*columns[3 * first : 3 * first + 3]):
            return
        self.compiled.run(order.translate(bytes([*sources, *range(len(sources), 256)])), *columns)

    def _of_one_source(self, heads: list[Head], order: bytes) -> bytes:
        """Up to where another source begins, if that is a run for a chain."""
        if not order or len(heads) == 1:
            return order
        alone = len(order) - len(order.lstrip(order[:1]))
        topic = heads[order[0]][0].topic_partition[0]
        takes = alone >= _LONG_ENOUGH and self.compiled.chains[self.compiled.source_of[topic]] is not None
        return order[:alone] if takes else order

    def _before_expiry(self, heads: list[Head], order: bytes) -> bytes:
        """Up to a record that may make segments expire."""
        if not any(self.compiled.expiries):
            return order
        bounds = [
            min((_expires_at(*each) for each in self.compiled.expiries[self.compiled.source_of[queue.topic_partition[0]]]), default=NEVER)
            for queue, _ in heads
        ]  # fmt: skip
        at = [chunk.at for _, chunk in heads]
        times = [chunk.timestamps for _, chunk in heads]
        if all(max(of[first : first + len(order)]) < bound for of, first, bound in zip(times, at, bounds, strict=True)):
            return order
        for number, place in enumerate(order):
            if times[place][at[place]] >= bounds[place]:
                return order[:number]
            at[place] += 1
        return order

    def _arrange(self, heads: list[Head], order: bytes) -> None:
        """The heap as it is after taking these records one by one: who was taken last is first only if its head is
        before the other's.
        """
        queues = [queue for queue, _ in heads]
        last = queues.pop(order[-1])
        waiting = [queue for queue in queues if queue.chunks]
        if not last.chunks:
            self._task.group.arrange(waiting)
        elif waiting and last.head_time >= waiting[0].head_time:
            self._task.group.arrange([*waiting, last])
        else:
            self._task.group.arrange([last, *waiting])

    def _by_nodes(self, queue: PartitionQueue, chunk: Chunk) -> None:
        raw = chunk.record(chunk.at)
        record = queue.decode(raw, queue.partition_time)
        heads = [(each, each.chunks[0]) for each in self._task.group.in_order()]
        time = queue.partition_time
        queue.took(chunk, chunk.at + 1)
        self._arrange(heads, b"\0")
        if record is None:
            queue.partition_time = time  # what is left out has no time
        else:
            self._task.process_record(queue, raw, record)


@contextmanager
def _no_collections() -> Iterator[None]:
    """A run makes thousands of objects and no garbage that needs a collector; each of its rounds would go over all of
    them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _merged(heads: list[tuple[list[int], int]], most: int) -> bytes:
    """Which of one or two inputs is next, again and again, while each has a record: 0 for the first, 1 for the
    other.
    """
    times, at = heads[0]
    end = min(len(times), at + most)
    if len(heads) == 1:
        return bytes(end - at)
    others, other_at = heads[1]
    if max(times[at:end]) < others[other_at]:
        return bytes(end - at)
    order, one, other = bytearray(), 0, 1
    while len(order) < most:
        order.append(one)
        at += 1
        if at == len(times):
            break
        if times[at] >= others[other_at]:
            times, others, at, other_at, one, other = others, times, other_at, at, other, one
    return bytes(order)


def _expires_at(segments: Segments, step: int) -> int:
    """From which timestamp on a record may make segments expire. `step`: windows start at multiples of it."""
    if segments.segment(segments.stream_time - segments.retention_ms) > segments.oldest:
        return -1
    bound = (segments.oldest + 1) * segments.interval_ms + segments.retention_ms
    return -(-bound // step) * step


def compile_lane(task: "Task") -> Lane | None:
    if len(task.group.queues) > _MOST_INPUTS:
        return None
    try:
        compiled = Compiler(task).all()
    except NotInLane:
        return None
    if task.caches:  # what is compiled of other operators does not know them
        held_back = cached_counting_run(task, compiled.checks[0])
        if held_back is None:
            return None
        return Lane(task, dataclasses.replace(compiled, run=held_back, chains=[None] * len(compiled.chains)))
    in_c = counting_run(task, compiled.checks[0], compiled.run)
    return Lane(task, compiled if in_c is None else dataclasses.replace(compiled, run=in_c))
