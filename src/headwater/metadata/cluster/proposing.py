"""What leaders propose: the in-sync replicas of their partitions, each over the version that its leader knows.

Proposals of one turn are written in one step. If it is refused, each is written alone, so that one that comes too late
does not take the others with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.base.coordination import Coordination, CoordinationError, Written
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Scheduler
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.change_follower import ChangeFollower
from headwater.metadata.cluster.lifetime import Done, Lifetime
from headwater.metadata.cluster.refusals import is_disconnection, meaning
from headwater.metadata.cluster.writing import proposal
from headwater.metadata.image import ClusterImage, PartitionChanged

TOGETHER_MAX: Final = 100


@dataclass(slots=True)
class _Proposal:
    change: PartitionChanged
    done: Done


class Proposing:
    def __init__(
        self,
        coordination: Coordination,
        scheduler: Scheduler,
        life: Lifetime,
        image: ClusterImage,
        following: ChangeFollower,
    ) -> None:
        self._coordination = coordination
        self._scheduler = scheduler
        self._life = life
        self._image = image
        self._following = following
        self._waiting: list[_Proposal] = []

    def propose(self, change: PartitionChanged, done: Done) -> None:
        if not self._waiting:
            self._scheduler.call_soon(self._life.bind(self._flush))
        self._waiting.append(_Proposal(change, self._life.owe(done)))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for begin in range(0, len(waiting), TOGETHER_MAX):
            self._write(waiting[begin : begin + TOGETHER_MAX])

    def _write(self, proposals: Sequence[_Proposal]) -> None:
        possible = [one for one in proposals if self._is_possible(one)]
        if possible:
            writes = proposal([one.change for one in possible], self._image)
            self._coordination.write(writes, self._life.bind(partial(self._written, possible)))

    def _is_possible(self, one: _Proposal) -> bool:
        if one.change.topic_id not in self._image.topics:
            one.done(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "The topic has been deleted."))
            return False
        if one.change.version < 0:
            one.done(KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "The state of the partition is not known."))
            return False
        return True

    def _written(
        self, proposals: Sequence[_Proposal], written: list[Written] | None, error: CoordinationError | None
    ) -> None:
        if error is None and written is not None:
            sequence = layout.sequence_of(str(written[-1]))
            self._following.wait_for(sequence, partial(_answer, proposals, None))
        elif error is None or is_disconnection(error):
            self._life.fail(error or CoordinationError())
        elif len(proposals) > 1:
            for one in proposals:
                self._write([one])
        else:  # the leader's image is behind: it shall know better when it hears of it
            self._following.catch_up(partial(_answer, proposals, meaning(error)))


def _answer(proposals: Sequence[_Proposal], error: KafkaError | None) -> None:
    for one in proposals:
        one.done(error)
