"""A cluster that is not there: a clock that jumps, a poller without sockets, brokers that answer from a table.

    world = FakeWorld()
    broker = world.broker(0)                       # listens at broker-0:9092, knows ApiVersions and Metadata
    world.topic("orders", partitions=3)            # led by the brokers in turn
    broker.on(ListOffsetsRequest, lambda request: ListOffsetsResponse(...))     # also: None (no answer), CLOSE, HOLD
    session = world.session()
    assert world.run(session.topic("orders")).partitions

Everything happens in the order of its time; `run` ends with an assertion when nothing more can happen.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from headwater.client.addresses import Address
from headwater.client.reactor.kernel import Kernel, Task
from headwater.client.reactor.network import StreamOwner
from headwater.client.session import Session, SessionSettings
from headwater.wire.framing import Frames
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.wire.registry import known_keys, request_class, response_class
from headwater.wire.schema import Message

T = TypeVar("T")

CLOSE: Final = object()  # an answer: the broker closes the connection
HOLD: Final = object()  # an answer: none for now; `FakeBroker.answer_held` gives it later
ROUND_TRIP: Final = 0.001


class FakeWorld:
    """Clock, poller and dialer in one, and the brokers by address."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.brokers: dict[Address, FakeBroker] = {}
        self.topics: dict[str, list[int]] = {}  # name -> leader of each partition
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self.kernel = Kernel(self, lambda: self.now)
        self.dialled: list[Address] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    # For tests

    def broker(self, broker_id: int) -> "FakeBroker":
        address = Address(f"broker-{broker_id}", 9092)
        made = FakeBroker(self, broker_id, address)
        self.brokers[address] = made
        return made

    def topic(self, name: str, partitions: int = 1) -> None:
        ids = [broker.id for broker in self.brokers.values()]
        self.topics[name] = [ids[at % len(ids)] for at in range(partitions)]

    def session(self, **settings: Any) -> Session:
        known = SessionSettings(bootstrap=list(self.brokers), **settings)
        return Session(self.kernel, self, known, chance=lambda: 0.5)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.finish(self.kernel.spawn(coroutine))

    def finish(self, task: "Task[T]") -> T:
        self.kernel.run_ready()
        while not task.done:
            self.kernel.step(None)
        return task.result()

    def pass_time(self, seconds: float) -> None:
        """Lets everything happen that happens within this time."""
        end = self.now + seconds
        while self.now < end:
            self.kernel.step(end - self.now)
        self.kernel.run_ready()

    def later(self, action: Callable[[], None], seconds: float = ROUND_TRIP / 2) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    # The poller

    def poll(self, timeout: float | None) -> list[Any]:
        next_at = self._events[0][0] if self._events else None
        if next_at is None and timeout is None:
            raise AssertionError("nothing can happen any more: a task waits for what never comes")
        until = self.now + timeout if timeout is not None else next_at
        assert until is not None
        if next_at is not None and next_at <= until:
            self.now = max(self.now, next_at)
        else:
            self.now = until
        due = []
        while self._events and self._events[0][0] <= self.now:
            due.append(heapq.heappop(self._events)[2])
        return due

    def dispatch(self, events: list[Any]) -> None:
        for event in events:
            event()

    def wake(self) -> None:
        """Nobody sleeps here."""

    def post(self, action: Callable[[], None], /) -> None:
        self.later(action)

    # The dialer

    def dial(self, address: Address, owner: StreamOwner, frame_bytes_max: int) -> "FakeStream":
        self.dialled.append(address)
        stream = FakeStream(self, self.brokers.get(address), owner)
        self.later(stream.connect)
        return stream


class FakeStream:
    def __init__(self, world: FakeWorld, broker: "FakeBroker | None", owner: StreamOwner) -> None:
        self.world = world
        self.broker = broker
        self.owner = owner
        self.open = True
        self.unsent_bytes = 0
        self._frames = Frames()

    def connect(self) -> None:
        if not self.open:
            return
        if self.broker is None or not self.broker.listening:
            self.end(ConnectionRefusedError(111, "Connection refused"))
            return
        self.broker.streams.append(self)
        self.owner.stream_connected()

    def write(self, chunks: list[Any]) -> None:
        data = b"".join(bytes(chunk) for chunk in chunks)
        self.world.later(lambda: self._arrive(data))

    def close(self) -> None:
        self.open = False

    def end(self, error: Exception | None) -> None:
        if self.open:
            self.open = False
            self.owner.stream_closed(error)

    def send(self, frame: bytes) -> None:
        def deliver() -> None:
            if self.open:
                self.owner.stream_frame(memoryview(frame))

        self.world.later(deliver)

    def _arrive(self, data: bytes) -> None:
        if self.open and self.broker is not None:
            for frame in self._frames.feed(data):
                self.broker.receive(self, frame)


class Held:
    """A request that the broker has not answered yet."""

    def __init__(self, stream: FakeStream, key: int, version: int, correlation_id: int, request: Message) -> None:
        self.stream = stream
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.request = request

    def answer(self, response: Message) -> None:
        header = response_header_bytes(self.key, self.version, self.correlation_id)
        version = self.version
        if isinstance(response, ApiVersionsResponse) and response.error_code:
            version = 0  # a broker that does not know the version can only answer in the oldest
        self.stream.send(header + b"".join(bytes(chunk) for chunk in response.encode(version)))


class FakeBroker:
    """`requests` are all that came, decoded. `versions` may be narrowed to play an old broker: key -> (lowest,
    highest).
    """

    def __init__(self, world: FakeWorld, broker_id: int, address: Address) -> None:
        self.world = world
        self.id = broker_id
        self.address = address
        self.listening = True
        self.requests: list[Message] = []
        self.request_versions: list[tuple[int, int]] = []
        self.held: deque[Held] = deque()
        self.streams: list[FakeStream] = []
        self.versions: dict[int, tuple[int, int]] = {key: request_class(key).VERSIONS for key in known_keys()}
        self.finalized_features: dict[str, int] = {}
        self._answers: dict[int, Callable[[Any], Any]] = {}
        self._plain: set[int] = set()
        self.on_key(18, lambda _: self._api_versions())
        self.on(MetadataRequest, self._metadata)

    def on(self, request_type: type[Message], answer: Callable[[Any], Any]) -> None:
        """`answer(request)` gives a response, None (there is none: acks=0), CLOSE or HOLD."""
        self._answers[request_type.KEY] = answer

    def on_key(self, key: int, answer: Callable[[Any], Any]) -> None:
        self._answers[key] = answer

    def coordinates(self) -> None:
        """Answers FindCoordinator with itself."""

        def answer(request: Any) -> FindCoordinatorResponse:
            host, port = self.address
            keys = request.coordinator_keys or [request.key]
            found = [Coordinator(key=key, node_id=self.id, host=host, port=port) for key in keys]
            return FindCoordinatorResponse(node_id=self.id, host=host, port=port, coordinators=found)

        self.on_key(10, answer)

    def received(self, request_type: type[T]) -> list[T]:
        return [request for request in self.requests if isinstance(request, request_type)]

    def answer_held(self, response: Message, at: int = 0) -> None:
        held = self.held[at]
        del self.held[at]
        held.answer(response)

    def disconnect(self, error: Exception | None = None) -> None:
        """All connections break; the broker still listens."""
        streams, self.streams = self.streams, []
        for stream in streams:
            stream.end(error)

    def stop(self) -> None:
        self.listening = False
        self.disconnect()

    def start(self) -> None:
        self.listening = True

    def receive(self, stream: FakeStream, frame: bytes) -> None:
        header = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        request = request_class(key).decode(frame, header.body_at, version)
        self.requests.append(request)
        self.request_versions.append((key, version))
        if key not in self._answers:
            raise AssertionError(f"broker {self.id} does not know what to answer to {type(request).__name__}")
        answer = self._answers[key](request)
        held = Held(stream, key, version, header.correlation_id, request)
        if answer is CLOSE:
            self.world.later(lambda: stream.end(None))
        elif answer is HOLD:
            self.held.append(held)
        elif answer is not None:
            assert isinstance(answer, response_class(key))
            held.answer(answer)

    def _api_versions(self) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        response = ApiVersionsResponse(api_keys=keys)
        if self.finalized_features:
            from headwater.wire.messages.api_versions import FinalizedFeatureKey

            response.finalized_features_epoch = 1
            response.finalized_features = [
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.finalized_features.items()
            ]
        return response

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        world = self.world
        names = list(world.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each.id, host=each.address.host, port=each.address.port)
                for each in world.brokers.values()
            ],
            cluster_id="fake",
            controller_id=min(each.id for each in world.brokers.values()),
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        leaders = self.world.topics.get(name)
        if leaders is None:
            return MetadataResponseTopic(error_code=3, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic_id(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=at,
                    leader_id=leader,
                    leader_epoch=self.world.leader_epochs.get((name, at), 0),
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                )
                for at, leader in enumerate(leaders)
            ],
        )


def topic_id(name: str) -> bytes:
    """The id that the fake cluster gives a topic."""
    return name.encode().ljust(16, b"\1")[:16]
