"""What a client asked of the controller, on its way: planned piece by piece, and answered when all of it is committed.

A plan that lost a race against a leader's own change is made again from the newer image. What it had committed by then
is done already, which is no error the second time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.controller.planning import Election, Planned, Planner
from headwater.controller.reassignment import Move

Answer = Callable[[KafkaError | None, list[KafkaError | None]], None]
"""An error of the whole, or what came of each partition, in the order of the request."""

PlanOne = Callable[[Planner], Planned | None]

_DONE_ALREADY: Final = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


class Request:
    def __init__(self, plans: Sequence[PlanOne], deadline_ms: int, answer: Answer) -> None:
        self.deadline_ms = deadline_ms  # of the monotonic clock
        self._plans = plans
        self._answer = answer
        self._results: list[KafkaError | None] = [None] * len(plans)
        self._attempted: set[int] = set()
        self._begin = self._end = 0  # the piece that is under way

    @property
    def is_complete(self) -> bool:
        return self._begin == len(self._plans)

    def plan(self, planner: Planner, limit: int) -> list[Planned]:
        """The next piece: up to `limit` changes."""
        planned: list[Planned] = []
        self._end = self._begin
        while self._end < len(self._plans) and len(planned) < limit:
            found = self._plan_one(self._end, planner)
            if found is not None:
                planned.append(found)
            self._end += 1
        return planned

    def piece_committed(self) -> None:
        self._begin = self._end

    def answer(self, error: KafkaError | None = None) -> None:
        self._answer(error, [] if error is not None else self._results)

    def _plan_one(self, index: int, planner: Planner) -> Planned | None:
        self._results[index] = None
        try:
            found = self._plans[index](planner)
        except KafkaError as problem:
            if not (index in self._attempted and problem.code in _DONE_ALREADY):
                self._results[index] = problem
            return None
        if found is not None:
            self._attempted.add(index)
        return found


def election(partitions: Sequence[TopicPartition], kind: Election, deadline_ms: int, answer: Answer) -> Request:
    return Request(
        [
            partial(Planner.elect, partition=partition, kind=kind) if is_first else _repeated(partition)
            for partition, is_first in zip(partitions, _once(partitions), strict=True)
        ],
        deadline_ms,
        answer,
    )


def reassignment(moves: Sequence[Move], may_change_factor: bool, deadline_ms: int, answer: Answer) -> Request:
    partitions = [TopicPartition(move.topic, move.partition) for move in moves]
    return Request(
        [
            partial(Planner.move, move=move, may_change_factor=may_change_factor) if is_first else _repeated(partition)
            for move, partition, is_first in zip(moves, partitions, _once(partitions), strict=True)
        ],
        deadline_ms,
        answer,
    )


def _once(partitions: Sequence[TopicPartition]) -> list[bool]:
    """Whether each is named for the first time: two states for one partition cannot be written over one version."""
    first = {partition: index for index, partition in reversed(list(enumerate(partitions)))}
    return [first[partition] == index for index, partition in enumerate(partitions)]


def _repeated(partition: TopicPartition) -> PlanOne:
    def plan(_: Planner) -> Planned | None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partition {partition} is named more than once.")

    return plan


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
