"""The topics of a query as the cluster has them now: which partitions there are, and from where to where their logs go.

Owns one connection to the cluster; lives in a Python process of the driver. What fails for a while, a broker that is
gone for a minute included, is waited for.

Each small batch waits for a look, so a look is one burst of requests: beside the metadata it asks for the ends of the
partitions that the last look has found. Those answers count only if the metadata is as it was then, the same topics by
id and the same leaders; else the ends are asked for again, of what the metadata says now.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin.records import list_offsets
from headwater.client.session import Session
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, OffsetAt, Topic
from headwater.spark.admin import open_admin, with_retries
from headwater.spark.offset_options import LogFacts, Position, Times, resolve
from headwater.spark.options import SourceOptions, Subscription

_LOOKS_AGAIN: Final = 5  # with growing pauses: some three seconds

_GONE: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))

Facts = dict[TopicPartition, LogFacts]
Meanwhile = Callable[[Session], Coroutine[Any, Any, None]]


class TopicLogs:
    def __init__(self, options: SourceOptions) -> None:
        self.admin = open_admin(options.bootstrap_servers, options.client)
        self._options = options
        self._isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
        self._ids: dict[str, bytes] = {}  # of topics, as the stream knows them, and as they were at the last look
        self._last_ids: dict[str, bytes] = {}
        self._last_topics: list[Topic] = []
        self._last_ends: dict[TopicPartition, int] = {}  # as `offsets_at` was told

    def close(self) -> None:
        self.admin.close()

    def facts(self, *, must_exist: bool) -> Facts:
        """Every partition that the subscription means. `must_exist`: topics that are named and missing are an error."""
        return with_retries(self.admin, lambda: self._facts(must_exist))

    def offsets_at(self, position: Position, option: str, *, or_latest: bool) -> dict[TopicPartition, int]:
        """Where the option says, in every partition there is."""
        found = self.facts(must_exist=True)
        self._last_ends = {each: fact.latest for each, fact in found.items()}
        if isinstance(position, Times):
            times = {each: position.of(each) for each in found}
            wanted = {each: time for each, time in times.items() if time is not None}
            answers = self._ask(wanted)
            found = {each: LogFacts(fact.earliest, fact.latest, answers.get(each, -1)) for each, fact in found.items()}
        return resolve(position, found, option, nothing_so_young_is_latest=or_latest)

    def held_back(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Of partitions that are to be read from behind their end, those that end there for a reader of committed
        records only: the first open transaction lies before `start`, and the log goes further. `end` is what
        `offsets_at` gave last; one that was named is where it is, whatever the log holds.
        """
        short = [each for each in start if each in end and end[each] < start[each]]
        asked = [each for each in short if end[each] == self._last_ends.get(each)]
        if not asked or not self._options.read_committed:
            return set()
        written = with_retries(self.admin, lambda: self._ask(dict.fromkeys(asked, LATEST), READ_UNCOMMITTED))
        return {each for each, last in written.items() if last >= start[each]}

    def since(self, begin: Mapping[TopicPartition, int], meanwhile: Meanwhile | None = None) -> Facts:
        """Every partition that the subscription means, for a stream that has read up to `begin`. What is to be done
        `meanwhile` on the same connection is done when this returns or raises.

        A reader of committed records is told that a log ends where the first open transaction begins. That may lie
        before `begin`, which another reader may have written into the checkpoint: the log is not cut off then, there is
        nothing to read yet.

        A topic that was deleted and made again since the last look has another id. It is told as `anew` at each look
        until `accept_topics`; whether one was made anew while nobody looked, before the query was started, cannot be
        told.
        """
        found = with_retries(self.admin, lambda: self._since(begin, meanwhile))
        for attempt in range(_LOOKS_AGAIN):
            if begin.keys() <= found.keys():
                break
            self._pause(attempt)
            found = with_retries(self.admin, lambda: self._since(begin, None))
        return found

    def _pause(self, attempt: int) -> None:
        """Before a look at what the last one did not find: a broker that has just started, or lags behind, says of a
        topic that it is not there.
        """

        async def pause(session: Session) -> None:
            await session.pause(attempt, session.deadline())

        self.admin.run(pause)

    def accept_topics(self) -> None:
        """The stream has taken note of what `since` told it last."""
        self._ids.update(self._last_ids)

    def _since(self, begin: Mapping[TopicPartition, int], meanwhile: Meanwhile | None) -> Facts:
        found = self._facts(False, meanwhile)
        short = [each for each in begin if each in found and found[each].latest < begin[each]]
        if short and self._options.read_committed:
            for each, end in self._ask(dict.fromkeys(short, LATEST), READ_UNCOMMITTED).items():
                if end >= begin[each]:
                    found[each] = replace(found[each], latest=begin[each])
        anew = {name for name, topic_id in self._last_ids.items() if self._ids.get(name, topic_id) != topic_id}
        return {each: replace(fact, anew=True) if each.topic in anew else fact for each, fact in found.items()}

    def _facts(self, must_exist: bool, meanwhile: Meanwhile | None = None) -> Facts:
        async def look(session: Session) -> "list[Facts | BaseException | None]":
            also = [] if meanwhile is None else [meanwhile(session)]
            return await session.kernel.all_of([self._look(session, must_exist), *also])

        found, *done = self.admin.run(look)
        for outcome in (found, *done):
            if isinstance(outcome, BaseException):
                raise outcome
        assert isinstance(found, dict)
        return found

    async def _look(self, session: Session, must_exist: bool) -> Facts:
        subscription, last = self._options.subscription, self._last_topics
        expected = session.kernel.spawn(self._ends(session, chosen_partitions(subscription, last))) if last else None
        try:
            topics = [each for each in await session.refresh(names_to_ask(subscription)) if means(subscription, each)]
            partitions = self._partitions(topics, must_exist)
            self._last_ids = {each.name: each.topic_id for each in topics if any(each.topic_id)}  # not of old brokers
            self._last_topics = topics
            if expected is not None and topics == last:
                return await expected
        finally:
            if expected is not None:
                expected.cancel()
        return await self._ends(session, partitions)

    async def _ends(self, session: Session, partitions: Iterable[TopicPartition]) -> Facts:
        """Both questions go out together, the earliest offsets first: a batch waits for one answer less. A partition
        whose leader moves meanwhile may be asked in the other order; its earliest offset may then be the larger one,
        and nothing is read of it.
        """
        asked = sorted(partitions)
        earliest, latest = await self._answers(
            session,
            [(dict.fromkeys(asked, EARLIEST), self._isolation), (dict.fromkeys(asked, LATEST), self._isolation)],
        )
        # A topic that goes between the two questions is gone.
        return {each: LogFacts(earliest[each], latest[each]) for each in asked if each in earliest and each in latest}

    def _ask(self, wanted: dict[TopicPartition, int], isolation: int | None = None) -> dict[TopicPartition, int]:
        level = self._isolation if isolation is None else isolation
        return self.admin.run(lambda session: self._answers(session, [(wanted, level)]))[0]

    async def _answers(
        self, session: Session, questions: list[tuple[dict[TopicPartition, int], int]]
    ) -> list[dict[TopicPartition, int]]:
        """The offsets at the timestamps of each question, of the partitions that are there; all are asked at once."""
        asked = [list_offsets(session, wanted, isolation_level=level) for wanted, level in questions]
        return [offsets_there(answer) for answer in await session.kernel.all_of(asked)]

    def _partitions(self, topics: list[Topic], must_exist: bool) -> set[TopicPartition]:
        """Those that the subscription means. Raises what keeps it from being read."""
        subscription = self._options.subscription
        for topic in topics:
            if topic.error and topic.error not in _GONE:
                raise KafkaError(topic.error, f"topic {topic.name!r}")
        missing = [topic.name for topic in topics if topic.error in _GONE]
        if missing and must_exist:
            raise UserError(
                f"There is no topic {', '.join(repr(name) for name in sorted(missing))}",
                f"the cluster at {self._options.bootstrap_servers} does not have it",
                f"Create it (headwater topic create {missing[0]}), or correct the option {subscription.kind}",
            )
        chosen = chosen_partitions(subscription, topics)
        absent = sorted(set(subscription.partitions) - chosen)
        if absent and must_exist:
            raise UserError(
                f"There is no partition {', '.join(map(str, absent))}",
                "the topic has fewer",
                "Correct the option assign, or add partitions to the topic",
            )
        return chosen


def offsets_there(
    answers: "Mapping[TopicPartition, OffsetAt | KafkaError] | BaseException",
) -> dict[TopicPartition, int]:
    """Without partitions that are gone; raises any other error."""
    if isinstance(answers, BaseException):
        raise answers
    found = {}
    for partition, answer in answers.items():
        if not isinstance(answer, KafkaError):
            found[partition] = answer.offset
        elif answer.code not in _GONE:
            raise answer
    return found


def names_to_ask(subscription: Subscription) -> list[str] | None:
    """None: all topics."""
    if subscription.kind == "subscribePattern":
        return None
    return sorted({*subscription.topics, *(each.topic for each in subscription.partitions)})


def means(subscription: Subscription, topic: Topic) -> bool:
    """Of a pattern, whether it matches; what was asked for by name is meant."""
    if subscription.kind != "subscribePattern":
        return True
    return not topic.internal and re.fullmatch(subscription.pattern, topic.name) is not None


def chosen_partitions(subscription: Subscription, topics: Iterable[Topic]) -> set[TopicPartition]:
    there = {
        TopicPartition(topic.name, each.partition)
        for topic in topics
        if topic.error not in _GONE and means(subscription, topic)
        for each in topic.partitions
    }
    return there & set(subscription.partitions) if subscription.kind == "assign" else there
