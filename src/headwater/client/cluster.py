"""A cluster as a client sees it: found by bootstrap addresses, known by its metadata, asked through the right broker.

Requests about partitions go to their leaders. What fails for a while (a leader moved, a broker restarts) is tried
again with fresh metadata and growing pauses until the time is up; what cannot get better is said at once. Owns the
connections, one per broker, opened on first use. For one thread.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.backoff import Backoff
from headwater.client.connection import Connection
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut, UnknownTopic, raise_for
from headwater.client.routing import MetadataView
from headwater.client.types import Broker, ClusterInfo, Topic
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

Send = Callable[[Connection, list[TopicPartition]], Mapping[TopicPartition, T | KafkaError]]

_UNKNOWN_TOPIC_TRIES: Final = 3  # a topic made a moment ago may not have reached every broker yet


class Cluster:
    """`open_connection`, `sleep`, `monotonic` and `chance` are there for tests to replace."""

    def __init__(
        self,
        bootstrap: list[Address],
        *,
        client_id: str = "headwater",
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int = 60_000,
        connect_timeout_ms: int = 10_000,
        backoff: Backoff | None = None,
        open_connection: Callable[..., Connection] = Connection.open,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.view = MetadataView()
        self.request_timeout_ms = request_timeout_ms
        self.api_timeout_ms = api_timeout_ms
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._backoff = backoff or Backoff()
        self._open_connection = open_connection
        self._sleep = sleep
        self._monotonic = monotonic
        self._chance = chance
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Metadata

    def refresh(self, topics: Iterable[str] | None = (), *, auto_create: bool = False) -> list[Topic]:
        """Asks for metadata: of these topics, of none (brokers only), or of all (None)."""
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=auto_create,
        )
        response = self.call_any(request, MetadataResponse)
        raise_for(response.error_code)
        return self.view.apply(response)

    def info(self) -> ClusterInfo:
        self.refresh()
        view = self.view
        return ClusterInfo(view.cluster_id, view.controller_id, sorted(view.brokers.values()))

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics, by name."""
        found = [topic for topic in self.refresh(None) if internal or not topic.internal]
        return sorted(found, key=lambda topic: topic.name)

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """One topic whose partitions have leaders; UnknownTopic, with the names there are, if there is none."""
        deadline = self.deadline()
        attempt = 0
        while True:
            found = self.refresh([name], auto_create=auto_create)[0]
            code = found.error
            if code == ErrorCode.NONE and found.partitions:
                return found
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not auto_create and attempt + 1 >= _UNKNOWN_TOPIC_TRIES:
                raise UnknownTopic(name, [topic.name for topic in self.topics(internal=True)])
            if code and not code.retriable:
                raise KafkaError(code, f"topic {name!r}")
            if not self.pause(attempt, deadline):
                raise KafkaError(code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
            attempt += 1

    # Calls

    def call_any(self, request: Message, response_type: type[R]) -> R:
        """Any broker will do: one that is connected, else one that is known, else the bootstrap addresses."""
        failures: list[KafkaError] = []
        for address in self._candidates():
            try:
                return self.connection_to(address).call(request, response_type)
            except (ConnectionFailed, RequestTimedOut) as error:
                failures.append(error)
        raise BootstrapFailed(failures)

    def call_controller(self, request: Message, response_type: type[R], refused: Callable[[R], bool]) -> R:
        """The broker that the metadata names as controller; asked again elsewhere while it answers NOT_CONTROLLER."""
        deadline = self.deadline()
        attempt = 0
        while True:
            self.refresh()
            if self.view.controller_id in self.view.brokers:
                response = self.broker(self.view.controller_id).call(request, response_type)
            else:
                response = self.call_any(request, response_type)
            if not refused(response) or not self.pause(attempt, deadline):
                return response
            attempt += 1

    def per_leader(
        self, partitions: Iterable[TopicPartition], send: Send[T], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, T | KafkaError]:
        """Asks each partition's leader through `send`, and again about those that failed for the moment.

        An answer or a final error for each partition, in the order given.
        """
        todo = list(dict.fromkeys(partitions))
        outcome: dict[TopicPartition, T | KafkaError] = dict.fromkeys(
            todo, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer")
        )
        deadline = self.deadline(timeout_ms)
        attempt = 0
        while True:
            outcome.update(self._ask_leaders(todo, send))
            todo = [each for each in todo if _worth_trying_again(outcome[each], attempt)]
            if not todo or not self.pause(attempt, deadline):
                return outcome
            attempt += 1
            self.refresh_quietly({each.topic for each in todo})

    def _ask_leaders(self, todo: list[TopicPartition], send: Send[T]) -> dict[TopicPartition, T | KafkaError]:
        missing = {each.topic for each in todo if each.topic not in self.view.topics}
        if missing:
            self.refresh(sorted(missing))
        routes = self.view.route(todo)
        answers: dict[TopicPartition, T | KafkaError] = dict(routes.without_leader)
        for leader, partitions in routes.by_leader.items():
            try:
                answers.update(send(self.broker(leader), partitions))
            except (ConnectionFailed, RequestTimedOut) as error:
                answers.update(dict.fromkeys(partitions, error))
        return answers

    def refresh_quietly(self, topics: Iterable[str]) -> None:
        """Nobody reachable now may be someone reachable after the next pause."""
        try:
            self.refresh(sorted(topics))
        except BootstrapFailed:
            return

    # Connections

    def broker(self, broker_id: int) -> Connection:
        found = self.view.brokers.get(broker_id)
        if found is None:
            self.refresh()
            found = self.view.brokers.get(broker_id)
        if found is None:
            ids = ", ".join(str(each) for each in sorted(self.view.brokers))
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {broker_id}; it has {ids}")
        return self.connection_to(_address(found))

    def connection_to(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._open_connection(
                address,
                client_id=self._client_id,
                connect_timeout_ms=self._connect_timeout_ms,
                request_timeout_ms=self.request_timeout_ms,
            )
            self._connections[address] = connection
        return connection

    def _candidates(self) -> list[Address]:
        connected = [address for address, connection in self._connections.items() if connection.is_open]
        known = [_address(broker) for broker in self.view.brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self._bootstrap]))

    # Time

    def pause(self, attempt: int, deadline: float) -> bool:
        """Waits before the next attempt; False, at once, if there is no time for one."""
        delay = self._backoff.delay_ms(attempt, self._chance()) / 1000
        if self._monotonic() + delay >= deadline:
            return False
        self._sleep(delay)
        return True

    def deadline(self, timeout_ms: int | None = None) -> float:
        return self._monotonic() + (self.api_timeout_ms if timeout_ms is None else timeout_ms) / 1000


def _worth_trying_again(answer: object, attempt: int) -> bool:
    if not isinstance(answer, KafkaError) or not answer.code.retriable:
        return False
    return answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt + 1 < _UNKNOWN_TOPIC_TRIES


def _address(broker: Broker) -> Address:
    return Address(broker.host, broker.port)


def all_or_raise(outcome: Mapping[TopicPartition, T | KafkaError]) -> dict[TopicPartition, T]:
    """The answers, if all of them are; else the first error, with its partition in front."""
    answers: dict[TopicPartition, T] = {}
    for partition, answer in outcome.items():
        if isinstance(answer, UnknownTopic | ConnectionFailed | RequestTimedOut):
            raise answer
        if isinstance(answer, KafkaError):
            raise KafkaError(
                answer.code, f"{partition}" + (f": {answer.message}" if answer.message else "")
            ) from answer
        answers[partition] = answer
    return answers
