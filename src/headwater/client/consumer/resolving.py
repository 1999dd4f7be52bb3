"""Where a partition without a position begins: at the group's committed offset, else by `auto.offset.reset`.

Runs by itself while some partition has no position, and tries again while brokers cannot be reached. What the user has
to mend (no offset and no policy, no permission) breaks the partition, or goes to `error`, which poll raises. Owned by
the core.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import NoOffsetForPartition
from headwater.client.consumer.lookups import list_offsets
from headwater.client.consumer.positions import EARLIEST, LATEST, OffsetAndMetadata, PartitionState, Phase
from headwater.client.consumer.subscription import Subscription
from headwater.client.errors import ConnectionFailed, RequestTimedOut
from headwater.client.reactor.kernel import Task
from headwater.client.session import Session
from headwater.client.types import NO_OFFSET

_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?")
_PASSING: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.STALE_MEMBER_EPOCH,  # these four: the membership changes just now, and will say what is assigned
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
    }
)
_BY_DURATION: Final = "by_duration:"


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """`auto.offset.reset`: to one of the ends, to a time ago, or (None and None) not at all."""

    end: int | None = None
    age_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ResetPolicy":
        if text == "earliest":
            return cls(end=EARLIEST)
        if text == "latest":
            return cls(end=LATEST)
        if text == "none":
            return cls()
        if text.startswith(_BY_DURATION):
            return cls(age_ms=parse_duration_ms(text[len(_BY_DURATION) :]))
        raise ValueError(f"{text!r} is not earliest, latest, none or by_duration:<ISO duration>, as by_duration:PT1H")

    def timestamp(self, now_ms: int) -> int | None:
        """What to ask the leader for; None: nothing, the user has to seek."""
        return self.end if self.age_ms is None else now_ms - self.age_ms


def parse_duration_ms(text: str) -> int:
    """ISO 8601, as Java reads it: P1DT2H3M4.5S."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()) or text.strip().endswith("T"):
        raise ValueError(f"{text!r} is not a duration such as PT1H, PT30M or P1D")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


Committed = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]]


class Resolver:
    """`committed` asks the group; None without one. `changed` is called when a partition has got its position, or
    broke.
    """

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        *,
        policy: ResetPolicy,
        isolation_level: int,
        committed: Committed | None,
        wall_clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self.error: KafkaError | None = None  # what poll has to raise
        self._session = session
        self._subscription = subscription
        self._policy = policy
        self._isolation_level = isolation_level
        self._committed = committed
        self._wall_clock_ms = wall_clock_ms
        self._changed = changed
        self._task: Task[None] | None = None
        self._nothing_to_do = False

    def look(self) -> None:
        """Some state changed: there may be something to do."""
        self._nothing_to_do = False

    def kick(self) -> None:
        """Starts the work, if there is any and none is under way."""
        if self._nothing_to_do or (self._task is not None and not self._task.done):
            return
        todo = self._todo()
        if todo:
            self._task = self._session.kernel.spawn(self._run(), "positions")
        else:
            self._nothing_to_do = True

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def restart(self, state: PartitionState) -> None:
        """The position is of no use: begin as the policy says. Without a policy, the caller breaks the partition."""
        timestamp = self._policy.timestamp(self._wall_clock_ms())
        assert timestamp is not None
        state.reset(timestamp)
        self.look()
        self.kick()

    @property
    def has_policy(self) -> bool:
        return self._policy != ResetPolicy()

    def _todo(self) -> list[PartitionState]:
        return [
            state
            for state in self._subscription.states.values()
            if state.phase in (Phase.UNCOMMITTED, Phase.RESETTING) and not state.held
        ]

    async def _run(self) -> None:
        attempt = 0
        while True:
            todo = self._todo()
            if not todo:
                self._changed()
                return
            try:
                await self.resolve(todo)
                attempt = 0
            except KafkaError as error:
                if not _may_pass(error):
                    self.error = error
                    self._changed()
                    return  # the next poll raises it, the one after tries again
                await self._session.pause(attempt, float("inf"))
                attempt += 1
                await self.refresh(todo)

    async def refresh(self, states: Iterable[PartitionState]) -> None:
        """Before they are tried again: the leader may be another one."""
        await self._session.refresh_quietly({state.partition.topic for state in states})

    async def resolve(self, states: Iterable[PartitionState]) -> None:
        """Gives each of them a position, or breaks it. Raises what keeps it from asking."""
        states = list(states)
        try:
            await self._from_the_group([state for state in states if state.phase is Phase.UNCOMMITTED])
            await self._from_the_log([state for state in states if state.phase is Phase.RESETTING])
        except KafkaError:
            self._changed()  # for some of them it may have gone well
            raise
        self._changed()

    async def _from_the_group(self, states: list[PartitionState]) -> None:
        if not states:
            return
        asked = {state: state.version for state in states}
        found: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if self._committed is not None:
            found = await self._committed([state.partition for state in states])
        without = []
        now_ms = self._wall_clock_ms()
        for state, version in asked.items():
            if state.version != version:
                continue  # somebody sought meanwhile
            offset = found.get(state.partition)
            timestamp = self._policy.timestamp(now_ms)
            if offset is not None:
                state.seek(offset.offset, offset.leader_epoch)
            elif timestamp is not None:
                state.reset(timestamp)
            else:
                without.append(state)
        if without:
            error = NoOffsetForPartition(state.partition for state in without)
            for state in without:
                state.broke(error)
            self._subscription.may_be_broken = True

    async def _from_the_log(self, states: list[PartitionState]) -> None:
        if not states:
            return
        asked = {state.partition: (state, state.version) for state in states}
        times = {state.partition: state.reset_to for state in states if state.reset_to is not None}
        # Asked once: what a broker that is gone leads is tried again, and the others need not wait for it.
        answers = await list_offsets(self._session, times, self._isolation_level, timeout_ms=0)
        problem: KafkaError | None = None
        nothing_so_young = []
        for partition, answer in answers.items():
            state, version = asked[partition]
            if state.version != version:
                continue
            if isinstance(answer, KafkaError):
                problem = answer
            elif answer.offset == NO_OFFSET:
                nothing_so_young.append(state)
            else:
                state.seek(answer.offset)
        for state in nothing_so_young:
            state.reset(LATEST)
        if problem is not None:
            raise problem


def _may_pass(error: KafkaError) -> bool:
    return error.code.retriable or isinstance(error, ConnectionFailed | RequestTimedOut) or error.code in _PASSING
