"""The topics of a query as the cluster has them now: which partitions there are, and from where to where their logs go.

Owns one connection to the cluster; lives in a Python process of the driver. What fails for a while, a broker that is
gone for a minute included, is waited for.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.errors import BootstrapFailed
from headwater.client.session import Session
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Topic
from headwater.spark.clients import shared_settings
from headwater.spark.options import SourceOptions, Subscription
from headwater.spark.positions import LogFacts, Position, Times, resolve

T = TypeVar("T")

PATIENCE_MS: Final = 180_000
_GONE: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))


def open_admin(bootstrap_servers: str, client: Mapping[str, str]) -> Admin:
    ours = {"bootstrap.servers": bootstrap_servers, "default.api.timeout.ms": PATIENCE_MS}
    return Admin({"client.id": "headwater-spark", **shared_settings(client), **ours})


def patiently(admin: Admin, call: Callable[[], T]) -> T:
    """Nobody reachable now may be someone reachable in a while."""
    deadline = admin.session.deadline()
    attempt = 0

    def pause(session: Session) -> Coroutine[Any, Any, bool]:
        return session.pause(attempt, deadline)

    while True:
        try:
            return call()
        except BootstrapFailed:
            if not admin.run(pause):
                raise
            attempt += 1


class Logs:
    def __init__(self, options: SourceOptions) -> None:
        self.admin = open_admin(options.bootstrap_servers, options.client)
        self._options = options
        self._isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED

    def close(self) -> None:
        self.admin.close()

    def facts(self, *, must_exist: bool) -> dict[TopicPartition, LogFacts]:
        """Every partition that the subscription means. `must_exist`: topics that are named and missing are an error."""
        return patiently(self.admin, lambda: self._facts(must_exist))

    def offsets_at(self, position: Position, option: str, *, or_latest: bool) -> dict[TopicPartition, int]:
        """Where the option says, in every partition there is."""
        found = self.facts(must_exist=True)
        if isinstance(position, Times):
            times = {each: position.of(each) for each in found}
            wanted = {each: time for each, time in times.items() if time is not None}
            answers = self._ask(wanted)
            found = {each: LogFacts(fact.earliest, fact.latest, answers.get(each, -1)) for each, fact in found.items()}
        return resolve(position, found, option, nothing_so_young_is_latest=or_latest)

    def _facts(self, must_exist: bool) -> dict[TopicPartition, LogFacts]:
        partitions = self._partitions(must_exist)
        earliest = self._ask(dict.fromkeys(partitions, EARLIEST))
        latest = self._ask(dict.fromkeys(partitions, LATEST))
        # A topic that goes between the two questions is gone.
        return {
            each: LogFacts(earliest[each], latest[each]) for each in partitions if each in earliest and each in latest
        }

    def _ask(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {}
        for partition, answer in self.admin.list_offsets(wanted, isolation_level=self._isolation).items():
            if not isinstance(answer, KafkaError):
                found[partition] = answer.offset
            elif answer.code not in _GONE:
                raise answer
        return found

    def _partitions(self, must_exist: bool) -> list[TopicPartition]:
        subscription = self._options.subscription
        topics = self.admin.run(lambda session: session.refresh(names_to_ask(subscription)))
        missing = [topic.name for topic in topics if topic.error in _GONE]
        if missing and must_exist:
            raise UserError(
                f"There is no topic {', '.join(repr(name) for name in sorted(missing))}",
                f"the cluster at {self._options.bootstrap_servers} does not have it",
                f"Create it (headwater topic create {missing[0]}), or correct the option {subscription.kind}",
            )
        return sorted(chosen_partitions(subscription, topics))


def names_to_ask(subscription: Subscription) -> list[str] | None:
    """None: all topics."""
    if subscription.kind == "subscribePattern":
        return None
    return sorted({*subscription.topics, *(each.topic for each in subscription.partitions)})


def chosen_partitions(subscription: Subscription, topics: Iterable[Topic]) -> set[TopicPartition]:
    there = {
        TopicPartition(topic.name, each.partition)
        for topic in topics
        if topic.error not in _GONE and not (topic.internal and subscription.kind == "subscribePattern")
        for each in topic.partitions
    }
    if subscription.kind == "assign":
        return there & set(subscription.partitions)
    if subscription.kind == "subscribePattern":
        pattern = re.compile(subscription.pattern)
        return {each for each in there if pattern.fullmatch(each.topic)}
    return there
