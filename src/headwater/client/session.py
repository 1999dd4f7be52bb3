"""A cluster as the client's coroutines see it: found by bootstrap addresses, known by its metadata, asked through
links.

One `Session` serves one producer, consumer or admin client. It owns the links (one per broker, opened on first use, and
one more to the coordinator of a group), the metadata, and what it knows of coordinators. Requests about partitions go
to their leaders, requests about groups and transactions to their coordinators, the rest to any broker. What fails for a
while is tried again with fresh metadata and growing pauses until the time is up; what cannot get better is said at
once.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.backoff import Backoff
from headwater.client.errors import (
    BootstrapFailed,
    ConnectionFailed,
    RequestTimedOut,
    UnknownTopic,
    error_for,
    raise_for,
)
from headwater.client.finding import LinkFinder
from headwater.client.reactor.kernel import Future, Kernel, Signal, Task
from headwater.client.reactor.link import Link
from headwater.client.reactor.network import Dialer
from headwater.client.routing import MetadataView
from headwater.client.types import Broker, Topic
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.schema import Message

if TYPE_CHECKING:
    from headwater.base.security.sasl_client import Credentials

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_UNKNOWN_TOPIC_TRIES: Final = 3  # a topic made a moment ago may not have reached every broker yet
COORDINATOR_MOVED: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)


# A broker answers the requests of a connection in order, and holds some back: a fetch until there are records, a join
# until all members are in. So what goes to the coordinator of a group has a link of its own, or heartbeats would wait
# for fetches.
GROUP_CHANNEL: Final = "group"


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class SessionSettings:
    bootstrap: list[Address]
    client_id: str = "headwater"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    connect_timeout_ms: int = 10_000
    metadata_max_age_ms: int = 300_000
    backoff: Backoff = field(default_factory=Backoff)
    reconnect_backoff: Backoff = field(default_factory=lambda: Backoff(50, 1000))
    credentials: "Credentials | None" = None  # of the login that each connection begins with


class Session:
    """`chance` gives numbers in [0, 1) for the jitter of pauses; tests give their own."""

    def __init__(
        self, kernel: Kernel, dialer: Dialer, settings: SessionSettings, *, chance: Callable[[], float] = random.random
    ) -> None:
        self.kernel = kernel
        self.settings = settings
        self.view = MetadataView()
        self.changed = Signal()  # after each metadata response
        self._dialer = dialer
        self._chance = chance
        self._links: dict[tuple[Address, str], Link] = {}  # by address and channel
        self._opening: dict[tuple[Address, str], Task[Link]] = {}
        self._failed_openings: dict[Address, int] = {}
        self._not_before: dict[Address, float] = {}
        self._coordinators: dict[tuple[KeyType, str], int] = {}
        self._refreshed_at: dict[str, float] = {}
        self._refreshing: dict[tuple[str, ...] | None, Task[list[Topic]]] = {}
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for task in list(self._opening.values()):
            task.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()
        self.kernel.run_ready()

    # Metadata

    async def refresh(self, topics: Iterable[str] | None = (), *, auto_create: bool = False) -> list[Topic]:
        """Asks for metadata: of these topics, of none (brokers only), or of all (None). The same question under way is
        shared.
        """
        wanted = None if topics is None else tuple(sorted(set(topics)))
        key = wanted if not auto_create else (*(wanted or ()), "\0create")
        task = self._refreshing.get(key)
        if task is None:
            task = self.kernel.spawn(self._refresh(wanted, auto_create), "metadata")
            self._refreshing[key] = task
            task.when_done(lambda _: self._refreshing.pop(key, None))
        return await task

    async def _refresh(self, wanted: tuple[str, ...] | None, auto_create: bool) -> list[Topic]:
        request = MetadataRequest(
            topics=None if wanted is None else [MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=auto_create,
        )
        response = await self.call_any(request, MetadataResponse)
        raise_for(response.error_code)
        topics = self.view.apply(response)
        now = self.kernel.clock()
        for topic in topics:
            self._refreshed_at[topic.name] = now
        self.changed.notify()
        return topics

    async def refresh_quietly(self, topics: Iterable[str]) -> None:
        """Nobody reachable now may be someone reachable after the next pause."""
        try:
            await self.refresh(topics)
        except KafkaError:
            return

    def is_stale(self, topic: str) -> bool:
        """Whether what is known of the topic is older than `metadata.max.age.ms`, or nothing."""
        at = self._refreshed_at.get(topic)
        return at is None or self.kernel.clock() - at >= self.settings.metadata_max_age_ms / 1000

    async def topic(self, name: str, *, auto_create: bool = False, timeout_ms: int | None = None) -> Topic:
        """One topic whose partitions have leaders; UnknownTopic, with the names there are, if there is none."""
        deadline = self.deadline(timeout_ms)
        attempt = 0
        while True:
            found = (await self.refresh([name], auto_create=auto_create))[0]
            code = found.error
            if code == ErrorCode.NONE and found.partitions:
                return found
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not auto_create and attempt + 1 >= _UNKNOWN_TOPIC_TRIES:
                raise UnknownTopic(name, [topic.name for topic in await self.refresh(None)])
            if code and not code.retriable:
                raise KafkaError(code, f"topic {name!r}")
            if not await self.pause(attempt, deadline):
                raise KafkaError(code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
            attempt += 1

    # Calls

    async def call(
        self,
        broker_id: int,
        request: Message,
        response_type: type[R],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
        channel: str = "",
    ) -> R:
        """One broker, once: ConnectionFailed and RequestTimedOut are the caller's to handle."""
        link = await self.link(broker_id, channel)
        return await link.call(request, response_type, timeout_ms=timeout_ms, at_most=at_most)

    async def call_any(self, request: Message, response_type: type[R]) -> R:
        """Any broker will do: one that is connected, else one that is known, else the bootstrap addresses."""
        finder = LinkFinder(self.kernel, self._candidates(), self._dial)
        while (link := await finder.next()) is not None:
            try:
                return await link.call(request, response_type)
            except (ConnectionFailed, RequestTimedOut) as error:
                finder.failures.append(error)
        raise BootstrapFailed(finder.failures)

    async def per_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: "Callable[[Link, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]]",
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, T | KafkaError]:
        """Asks each partition's leader, side by side, and again about those that failed for the moment.

        An answer or a final error for each partition, in the order given.
        """
        todo = list(dict.fromkeys(partitions))
        outcome: dict[TopicPartition, T | KafkaError] = dict.fromkeys(
            todo, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer")
        )
        deadline = self.deadline(timeout_ms)
        attempt = 0
        while True:
            outcome.update(await self._ask_leaders(todo, ask))
            todo = [each for each in todo if _worth_trying_again(outcome[each], attempt)]
            if not todo or not await self.pause(attempt, deadline):
                return outcome
            attempt += 1
            await self.refresh_quietly({each.topic for each in todo})

    async def _ask_leaders(
        self,
        todo: list[TopicPartition],
        ask: "Callable[[Link, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]]",
    ) -> dict[TopicPartition, T | KafkaError]:
        missing = {each.topic for each in todo if each.topic not in self.view.topics}
        if missing:
            await self.refresh(missing)
        routes = self.view.route(todo)
        answers: dict[TopicPartition, T | KafkaError] = dict(routes.without_leader)

        async def one(leader: int, partitions: list[TopicPartition]) -> Mapping[TopicPartition, T | KafkaError]:
            try:
                return await ask(await self.link(leader), partitions)
            except (ConnectionFailed, RequestTimedOut) as error:
                return dict.fromkeys(partitions, error)

        for answer in await self.kernel.all_of([one(*route) for route in routes.by_leader.items()]):
            if isinstance(answer, BaseException):
                raise answer
            answers.update(answer)
        return answers

    # Coordinators

    async def coordinator(self, key: str, key_type: KeyType = KeyType.GROUP, *, timeout_ms: int | None = None) -> int:
        """The id of the broker that answers for this key; remembered until `forget_coordinator`, or until that broker
        is gone.
        """
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.view.brokers:
            return known
        request = FindCoordinatorRequest(key=key, key_type=int(key_type), coordinator_keys=[key])
        deadline = self.deadline(timeout_ms)
        attempt = 0
        while True:
            try:
                response = await self.call_any(request, FindCoordinatorResponse)
            except BootstrapFailed as error:
                problem: KafkaError = error
            else:
                found = response.coordinators[0] if response.coordinators else response  # before v4 there is one only
                if found.error_code:
                    problem = error_for(found.error_code, found.error_message)
                elif found.node_id < 0 or not found.host:
                    problem = KafkaError(
                        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody is named as coordinator of {key!r}"
                    )
                else:
                    self._learn_address(found.node_id, Address(found.host, found.port))
                    self._coordinators[key_type, key] = found.node_id
                    return found.node_id
            if not (problem.code.retriable or isinstance(problem, BootstrapFailed)) or not await self.pause(
                attempt, deadline
            ):
                raise problem
            attempt += 1

    def known_coordinator(self, key: str, key_type: KeyType = KeyType.TRANSACTION) -> int | None:
        """The id of the coordinator if it has been asked for already."""
        return self._coordinators.get((key_type, key))

    def forget_coordinator(self, key: str, key_type: KeyType = KeyType.GROUP) -> None:
        """It said that it is not, or it is gone: the next call looks for it again."""
        self._coordinators.pop((key_type, key), None)

    async def coordinator_link(self, key: str, key_type: KeyType) -> Link:
        """To whoever answers for this key; looked for again while that broker cannot be reached, until the time is
        up.
        """
        deadline = self.deadline(None)
        attempt = 0
        while True:
            try:
                return await self.link(await self.coordinator(key, key_type))
            except (ConnectionFailed, RequestTimedOut):
                self.forget_coordinator(key, key_type)
                if not await self.pause(attempt, deadline):
                    raise
            attempt += 1

    async def call_coordinator(
        self,
        key: str,
        key_type: KeyType,
        request: Message,
        response_type: type[R],
        code_of: Callable[[R], int],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
        retriable: "frozenset[ErrorCode]" = COORDINATOR_MOVED,
    ) -> R:
        """What the coordinator of `key` answers; asked again, of whoever it is then, while `code_of` is one of
        `retriable`.

        When the time is up, the last answer is given as it is; a connection that failed is raised.
        """
        deadline = self.deadline(timeout_ms)
        channel = GROUP_CHANNEL if key_type == KeyType.GROUP else ""
        attempt = 0
        while True:
            answer: R | None = None
            try:
                broker_id = await self.coordinator(key, key_type)
                answer = await self.call(
                    broker_id, request, response_type, timeout_ms=timeout_ms, at_most=at_most, channel=channel
                )
                code = code_of(answer)
                if code not in retriable:
                    return answer
                if code in COORDINATOR_MOVED and code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    self.forget_coordinator(key, key_type)
            except (ConnectionFailed, RequestTimedOut) as error:
                self.forget_coordinator(key, key_type)
                if not await self.pause(attempt, deadline):
                    raise
                attempt += 1
                del error
                continue
            if not await self.pause(attempt, deadline):
                return answer
            attempt += 1

    # Links

    async def link(self, broker_id: int, channel: str = "") -> Link:
        found = self.view.brokers.get(broker_id)
        if found is None:
            await self.refresh()
            found = self.view.brokers.get(broker_id)
        if found is None:
            ids = ", ".join(str(each) for each in sorted(self.view.brokers))
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {broker_id}; it has {ids}")
        return await self.link_to(Address(found.host, found.port), channel)

    def open_link(self, broker_id: int) -> Link | None:
        """The link to a broker if it is open now: for the hot path."""
        found = self.view.brokers.get(broker_id)
        link = self._links.get((Address(found.host, found.port), "")) if found is not None else None
        return link if link is not None and link.is_open else None

    def close_link(self, broker_id: int, channel: str) -> None:
        """Gives up what is under way there; the next call opens a new one."""
        found = self.view.brokers.get(broker_id)
        link = self._links.pop((Address(found.host, found.port), channel), None) if found is not None else None
        if link is not None:
            link.close()

    def close_links(self) -> None:
        """All of them, as `close_link` does."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    async def link_to(self, address: Address, channel: str = "") -> Link:
        link = self._links.get((address, channel))
        if link is not None and link.is_open:
            return link
        return await self._dial(address, channel)

    def _dial(self, address: Address, channel: str = "") -> Future[Link]:
        key = (address, channel)
        opening = self._opening.get(key)
        if opening is None:
            opening = self.kernel.spawn(self._open(address, channel), f"connect {address}")
            self._opening[key] = opening
            opening.when_done(lambda _: self._opening.pop(key, None))
        return opening

    async def _open(self, address: Address, channel: str) -> Link:
        """A broker that just refused is not asked again before its pause is over."""
        self._require_open(address)
        known = self._links.get((address, channel))
        if known is not None and known.is_open:
            return known
        wait = self._not_before.get(address, 0.0) - self.kernel.clock()
        if wait > 0:
            await self.kernel.sleep(wait)
            self._require_open(address)
        settings = self.settings
        try:
            link = await Link.open(
                self.kernel,
                self._dialer,
                address,
                client_id=settings.client_id,
                connect_timeout_ms=settings.connect_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
                credentials=settings.credentials,
            )
        except KafkaError:
            failures = self._failed_openings.get(address, 0)
            self._failed_openings[address] = failures + 1
            delay_ms = settings.reconnect_backoff.delay_ms(failures, self._chance())
            self._not_before[address] = self.kernel.clock() + delay_ms / 1000
            raise
        self._failed_openings.pop(address, None)
        self._not_before.pop(address, None)
        if self._closed:
            link.close()
            raise ConnectionFailed(address, "the client is closed")
        self._links[address, channel] = link
        return link

    def _require_open(self, address: Address) -> None:
        """After `close` nobody would close what is opened."""
        if self._closed:
            raise ConnectionFailed(address, "the client is closed")

    def _candidates(self) -> list[Address]:
        connected = [address for (address, channel), link in self._links.items() if link.is_open and not channel]
        known = [Address(broker.host, broker.port) for broker in self.view.brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self.settings.bootstrap]))

    def learn_broker(self, broker: Broker) -> None:
        """An answer named a broker and its address."""
        self.view.brokers[broker.id] = broker

    def _learn_address(self, broker_id: int, address: Address) -> None:
        """What metadata said before may be the address of its former life."""
        known = self.view.brokers.get(broker_id)
        if known is None or Address(known.host, known.port) != address:
            self.learn_broker(Broker(broker_id, address.host, address.port))

    # Time

    async def pause(self, attempt: int, deadline: float) -> bool:
        """Waits before the next attempt; False, at once, if there is no time for one."""
        delay = self.settings.backoff.delay_ms(attempt, self._chance()) / 1000
        if self.kernel.clock() + delay >= deadline:
            return False
        await self.kernel.sleep(delay)
        return True

    def deadline(self, timeout_ms: int | None = None) -> float:
        return self.kernel.clock() + (self.settings.api_timeout_ms if timeout_ms is None else timeout_ms) / 1000


def _worth_trying_again(answer: object, attempt: int) -> bool:
    if not isinstance(answer, KafkaError) or not answer.code.retriable:
        return False
    return answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt + 1 < _UNKNOWN_TOPIC_TRIES
