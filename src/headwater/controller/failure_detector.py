"""Who is there: the controller's own look at the other brokers, beside what ZooKeeper says of them.

While this broker is the controller it keeps a connection to each other broker (`Lane.WATCH`). When a process dies and
its host does not, the connection ends at once, and a new one is refused. A broker that has answered before and is
refused twice in a row is doubted. It is a suspect when everybody else has answered since, all within a short time, and
ZooKeeper, asked after that, still has them all in the same lives. Silence proves nothing.

A suspect is taken for a broker that wants to be relieved (`brokers`): whoever else is in sync leads in its place, and
it is in sync no more; where nobody else is, nothing changes. What is decided so is written over versions as ever, so a
suspect that lives after all is deposed like any other leader. That the others have answered is what makes up for the
session that nobody waited for: one that lost its power has not, and must not be left as the only one in sync while the
suspect has everything.

A suspicion ends when the broker answers, registers anew or is gone; and when a leader takes it in again, which it does
only for one that fetches. The next one needs an answer first, and after a few mistakes there is none in this life of
the broker. Nothing is kept from one term to the next.

Of itself the controller knows one thing more: whether it has a log directory left. Without any it is about to end, so
it counts itself as gone already. It would be left as the only one in sync otherwise, where the others have what its
device may have lost.

Owned by the controller. Decisions over what is told; asks through `Peers`, which waits between two attempts to connect.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Final

from headwater.base.ids import BrokerId, PartitionKey
from headwater.base.peers import Lane, Peers, Unreachable
from headwater.controller.elections import Brokers
from headwater.metadata.image import BrokerGone, BrokerRegistered, BrokerState, Change, ClusterImage, PartitionChanged
from headwater.wire.messages.api_versions import ApiVersionsRequest

REFUSALS: Final = 2
MISTAKES_MAX: Final = 3  # in one life of a broker
ANSWER_MS: Final = 5000
ROUND_MS: Final = 2000  # what was answered to older questions tells of the past
_VERSION: Final = 3

logger = logging.getLogger("headwater.controller")


class Standing(Enum):
    TRUSTED = "trusted"
    DOUBTED = "doubted"  # refused; whether the others are there is not known yet
    SUSPECT = "suspect"


@dataclass(slots=True, eq=False)
class Watched:
    """A broker in one of its lives."""

    broker_id: BrokerId
    epoch: int
    standing: Standing = Standing.TRUSTED
    asked: int = 0  # requests under way
    has_answered: bool = False
    answered_round: int = -1  # the last of the rounds in which it has
    refusals: int = 0  # in a row
    mistakes: int = 0
    left: set[PartitionKey] = field(default_factory=set)  # where it is in sync no more since it is a suspect


class FailureDetector:
    """`confirm` reads from ZooKeeper who is registered, and calls back when the image has it. Without `peers` nobody is
    watched.

    `has_logs`: whether this broker has a log directory that it can use.
    """

    def __init__(
        self,
        image: ClusterImage,
        me: int = -1,
        peers: Peers | None = None,
        confirm: Callable[[Callable[[], None]], None] = lambda done: done(),
        monotonic_ms: Callable[[], int] = lambda: 0,
        has_logs: Callable[[], bool] = lambda: True,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Others are suspects than before."""
        self._image = image
        self._me = me
        self._peers = peers
        self._confirm = confirm
        self._monotonic_ms = monotonic_ms
        self._has_logs = has_logs
        self._watched: dict[BrokerId, Watched] = {}
        self._round = 0  # a new one with each doubt, and when one took too long
        self._round_began_ms = 0
        self._is_confirming = False

    @property
    def brokers(self) -> Brokers:
        """Those of the image, with suspects as if they were stopping, and this one as if it were gone when it has no
        logs.
        """
        known: Brokers = self._image.brokers
        suspects = self._of(Standing.SUSPECT)
        if suspects:
            known = {**known, **{each.broker_id: replace(known[each.broker_id], is_stopping=True) for each in suspects}}
        if self._has_logs():
            return known
        return {broker_id: broker for broker_id, broker in known.items() if broker_id != self._me}

    def begin(self) -> None:
        if self._peers is None:
            return
        self._peers.on_lost = self._lost
        for broker in self._image.brokers.values():
            self._watch(broker)

    def end(self) -> None:
        self._is_confirming = False
        self._watched.clear()
        if self._peers is not None:
            self._peers.on_lost = lambda _broker: None

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Between `begin` and `end`, after the image has applied them."""
        if self._peers is None:
            return
        suspects = self._of(Standing.SUSPECT)
        for change in changes:
            match change:
                case BrokerRegistered(broker):
                    self._watch(broker)
                case BrokerGone(broker_id):
                    self._watched.pop(broker_id, None)
                case PartitionChanged() if suspects:
                    self._look_for_life(change, suspects)
        self._advance()

    # Asking

    def _watch(self, broker: BrokerState) -> None:
        known = self._watched.get(broker.broker_id)
        if broker.broker_id != self._me and (known is None or known.epoch != broker.epoch):
            watched = self._watched[broker.broker_id] = Watched(broker.broker_id, broker.epoch)
            self._ask(watched)

    def _ask(self, watched: Watched) -> None:
        assert self._peers is not None
        watched.asked += 1
        request = ApiVersionsRequest(client_software_name="headwater", client_software_version="controller")
        heard = partial(self._heard, watched, self._round)
        self._peers.ask(watched.broker_id, Lane.WATCH, request, _VERSION, heard, timeout_ms=ANSWER_MS)

    def _lost(self, broker_id: BrokerId) -> None:
        watched = self._watched.get(broker_id)
        if watched is not None and not watched.asked:
            self._ask(watched)

    def _heard(self, watched: Watched, number: int, response: Any | None, problem: Unreachable | None) -> None:
        watched.asked -= 1
        if self._watched.get(watched.broker_id) is not watched:
            return
        if problem is None and response is not None:
            watched.refusals = 0
            if response.error_code == 0:  # otherwise somebody is there, and would say the same again at once
                self._answered(watched, number)
        elif not watched.asked:  # one attempt to connect may be told to several requests
            self._not_answered(watched, is_refused=problem is not None and problem.is_refused)

    def _answered(self, watched: Watched, number: int) -> None:
        if not watched.has_answered:
            logger.info("event=broker-watched broker=%d epoch=%d", watched.broker_id, watched.epoch)
        watched.has_answered = True
        watched.answered_round = max(watched.answered_round, number)
        if watched.standing is not Standing.TRUSTED:
            self._acquit(watched, "it answers")
        self._advance()

    def _not_answered(self, watched: Watched, *, is_refused: bool) -> None:
        watched.refusals = watched.refusals + 1 if is_refused else 0
        is_new = watched.standing is Standing.TRUSTED and watched.has_answered and watched.mistakes < MISTAKES_MAX
        if watched.refusals >= REFUSALS and is_new:
            self._doubt(watched)
        self._ask(watched)

    # Doubting

    def _of(self, standing: Standing) -> list[Watched]:
        return [each for each in self._watched.values() if each.standing is standing]

    def _witnesses(self) -> list[Watched]:
        """Who could lead instead: all of them have to answer."""
        brokers = self._image.brokers
        return [each for each in self._of(Standing.TRUSTED) if not brokers[each.broker_id].is_stopping]

    def _doubt(self, watched: Watched) -> None:
        logger.warning("event=broker-refuses broker=%d: nobody listens at its address any more", watched.broker_id)
        watched.standing = Standing.DOUBTED
        self._begin_round()
        self._advance()

    def _begin_round(self) -> None:
        self._round += 1
        self._round_began_ms = self._monotonic_ms()
        for each in self._witnesses():
            self._ask(each)

    def _is_round_old(self) -> bool:
        return self._monotonic_ms() - self._round_began_ms > ROUND_MS

    def _advance(self) -> None:
        if self._is_confirming or not self._of(Standing.DOUBTED) or not self._have_all_answered():
            return
        if self._is_round_old():  # somebody was waited for: who answered before may have died since
            self._begin_round()
        if self._have_all_answered():
            self._is_confirming = True
            self._confirm(partial(self._confirmed, self._round))

    def _have_all_answered(self) -> bool:
        return all(each.answered_round == self._round for each in self._witnesses())

    def _confirmed(self, number: int) -> None:
        self._is_confirming = False
        if number != self._round or not self._have_all_answered() or self._is_round_old():
            self._advance()
            return
        for each in self._of(Standing.DOUBTED):
            logger.warning("event=broker-suspected broker=%d: others take over before its session ends", each.broker_id)
            each.standing = Standing.SUSPECT
            each.left.clear()
        self.on_change()

    # Acquitting

    def _acquit(self, watched: Watched, why: str) -> None:
        logger.warning("event=broker-acquitted broker=%d reason=%r", watched.broker_id, why)
        was_suspect = watched.standing is Standing.SUSPECT
        watched.standing = Standing.TRUSTED
        watched.mistakes += 1
        watched.left.clear()
        if was_suspect:
            self.on_change()

    def _look_for_life(self, change: PartitionChanged, suspects: list[Watched]) -> None:
        key = PartitionKey(change.topic_id, change.partition)
        for each in suspects:
            if each.broker_id not in change.in_sync_replicas:
                each.left.add(key)
            elif key in each.left:  # which an acquittal empties
                each.has_answered = False
                self._acquit(each, "a leader has taken it in again")
