"""A client that knows the cluster by its metadata: each request goes to the leader, to the coordinator, or to any
broker.

Takes the place of `SimClient` under the scripts of `sim/clients`, which yield requests and do not say where to. A
Produce is divided by leaders and its answers are put together again. As Kafka's clients do, it keeps the highest leader
epoch that it has heard of, sends it with what it asks, and asks for metadata again when an answer says that it is out
of date.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask, SimClient
from headwater.sim.cluster_clients.line import Line
from headwater.wire.messages.delete_records import DeleteRecordsRequest
from headwater.wire.messages.fetch import FetchRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.list_offsets import ListOffsetsRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld

NOBODY: Final = -1
OUT_OF_DATE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
_METADATA_VERSION: Final = 12
Part = tuple[int, Ask]


class Leader:
    __slots__ = ("epoch", "node_id")

    def __init__(self, node_id: int, epoch: int) -> None:
        self.node_id = node_id
        self.epoch = epoch


class RoutedClient(SimClient):
    world: "ClusterWorld"

    def __init__(self, world: "ClusterWorld", name: str, *rest: Any) -> None:
        super().__init__(world, name, *rest)
        self.leaders: dict[tuple[bytes, int], Leader] = {}
        self.is_out_of_date = True
        self._topic_ids: dict[str, bytes] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._lines: dict[int, Line] = {}
        self._unanswered = 0

    def check(self) -> None:
        """Every question has its own end in time; that clients get somewhere is seen at the end of a run."""

    # The script's side

    def _resume(self, answers: list[Any] | None) -> None:
        super()._resume(answers)
        if self.is_done:
            for line in self._lines.values():
                line.close()

    def _send(self, asks: Sequence[Ask]) -> None:
        self._answers = [None] * len(asks)
        self._unanswered = len(asks)
        if self.is_out_of_date and any(isinstance(ask.request, _LED) for ask in asks):
            self._refresh(lambda: self._dispatch(asks))
        else:
            self._dispatch(asks)

    def _refresh(self, then: Callable[[], None]) -> None:
        def answered(response: Any) -> None:
            if isinstance(response, MetadataResponse):
                self.is_out_of_date = False
                self.learn(response)
            then()

        self._ask_node(self._any_node(), Ask(MetadataRequest(topics=None), _METADATA_VERSION), answered)

    def learn(self, response: MetadataResponse) -> None:
        for topic in response.topics:
            self._topic_ids[topic.name or ""] = topic.topic_id
            for part in topic.partitions:
                key = (topic.topic_id, part.partition_index)
                known = self.leaders.get(key)
                if known is None or part.leader_epoch >= known.epoch:
                    self.leaders[key] = Leader(part.leader_id, part.leader_epoch)

    def _dispatch(self, asks: Sequence[Ask]) -> None:
        for place, ask in enumerate(asks):
            self._route(ask, lambda response, place=place: self._answered(place, response))  # type: ignore[misc]

    def _answered(self, place: int, response: Any) -> None:
        self._answers[place] = response
        self._unanswered -= 1
        if self._unanswered == 0:
            answers = self._answers
            self.world.heap.call_later(0, lambda: self._resume(answers))

    # Where to

    def _route(self, ask: Ask, answered: Callable[[Any], None]) -> None:
        request = ask.request
        if isinstance(request, ProduceRequest):
            self._produce_divided(ask, request, answered)
        elif isinstance(request, ListOffsetsRequest | FetchRequest | DeleteRecordsRequest):
            self._ask_leader(ask, answered)
        elif isinstance(request, MetadataRequest):
            self._ask_node(self._any_node(), ask, lambda response: self._metadata_came(response, answered))
        elif isinstance(request, FindCoordinatorRequest):
            self._ask_node(self._any_node(), ask, lambda response: self._coordinator_came(request, response, answered))
        elif (key := _coordinator_key(request)) is not None:
            self._ask_coordinator(key, ask, answered)
        else:
            self._ask_node(self._any_node(), ask, answered)

    def _any_node(self) -> int:
        return self.random.choice(self.world.node_ids)

    def _ask_node(self, node_id: int, ask: Ask, answered: Callable[[Any], None]) -> None:
        line = self._lines.get(node_id)
        if line is None or not line.is_open:
            line = self._lines[node_id] = Line(self.world, self.name, node_id)
        if line.is_open:
            line.ask(ask, answered)
        else:
            self.is_out_of_date = True
            self.world.heap.call_later(self.random.randint(10, 200), lambda: answered(None))

    def _metadata_came(self, response: Any, answered: Callable[[Any], None]) -> None:
        if isinstance(response, MetadataResponse):
            self.learn(response)
        answered(response)

    # Leaders

    def leader_of(self, topic_id: bytes, name: str, index: int) -> Leader:
        known = self.leaders.get((topic_id or self._topic_ids.get(name, b""), index))
        return known if known is not None else Leader(NOBODY, -1)

    def _ask_leader(self, ask: Ask, answered: Callable[[Any], None]) -> None:
        """The partitions of one request have one leader here: whoever makes it sees to that."""
        node_id = NOBODY
        for topic in ask.request.topics:
            for part in topic.partitions:
                index = part.partition if isinstance(ask.request, FetchRequest) else part.partition_index
                name = topic.topic if isinstance(ask.request, FetchRequest) else topic.name
                leader = self.leader_of(getattr(topic, "topic_id", b""), name, index)
                if not isinstance(ask.request, DeleteRecordsRequest):
                    part.current_leader_epoch = leader.epoch
                node_id = leader.node_id
        if node_id == NOBODY and ask.node_id == NOBODY:
            self.is_out_of_date = True
            self.world.heap.call_later(self.random.randint(10, 200), lambda: answered(None))
            return
        self._ask_node(
            node_id if ask.node_id == NOBODY else ask.node_id, ask, lambda response: self._judged(response, answered)
        )

    def _judged(self, response: Any, answered: Callable[[Any], None]) -> None:
        if response is None or not OUT_OF_DATE.isdisjoint(error_codes(response)):
            self.is_out_of_date = True
        answered(response)

    def _produce_divided(self, ask: Ask, request: ProduceRequest, answered: Callable[[Any], None]) -> None:
        parts = self._divided(ask, request)
        responses: list[Any] = []

        def one_answered(response: Any) -> None:
            responses.append(response)
            if len(responses) == len(parts):
                self._judged(_put_together(request, responses) if any(responses) else None, answered)

        for node_id, part in parts:
            if node_id == NOBODY:
                unknown = _refused(part.request)
                self.world.heap.call_later(self.random.randint(10, 200), partial(one_answered, unknown))
            else:
                self._ask_node(node_id, part, one_answered)

    def _divided(self, ask: Ask, request: ProduceRequest) -> list[Part]:
        by_node: dict[int, ProduceRequest] = {}
        for topic in request.topic_data:
            for part in topic.partition_data:
                node_id = self.leader_of(topic.topic_id, topic.name, part.index).node_id
                piece = by_node.setdefault(
                    node_id,
                    ProduceRequest(
                        transactional_id=request.transactional_id,
                        acks=request.acks,
                        timeout_ms=request.timeout_ms,
                        topic_data=[],
                    ),
                )
                if not piece.topic_data or piece.topic_data[-1].topic_id != topic.topic_id:
                    piece.topic_data.append(
                        TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[])
                    )
                piece.topic_data[-1].partition_data.append(part)
        return [(node_id, ask._replace(request=piece)) for node_id, piece in by_node.items()]

    # Coordinators

    def coordinator(self, key_type: int, key: str) -> int:
        """The broker that was asked last, as far as it is known still."""
        return self._coordinators.get((key_type, key), NOBODY)

    def _ask_coordinator(self, key: tuple[int, str], ask: Ask, answered: Callable[[Any], None]) -> None:
        if key in self._coordinators:
            self._ask_node(self._coordinators[key], ask, lambda response: self._coordinated(key, response, answered))
            return
        question = FindCoordinatorRequest(coordinator_keys=[key[1]], key_type=key[0])

        def found(response: Any) -> None:
            self._coordinator_came(question, response, lambda _: None)
            if key in self._coordinators:
                self._ask_coordinator(key, ask, answered)
            else:
                self.world.heap.call_later(self.random.randint(10, 200), lambda: answered(None))

        self._ask_node(self._any_node(), Ask(question, 4), found)

    def _coordinator_came(
        self, request: FindCoordinatorRequest, response: Any, answered: Callable[[Any], None]
    ) -> None:
        if response is not None:
            if response.coordinators:
                found = response.coordinators[0]
                if found.error_code == 0:
                    self._coordinators[request.key_type, found.key] = found.node_id
            elif response.error_code == 0:
                self._coordinators[request.key_type, request.key] = response.node_id
        answered(response)

    def _coordinated(self, key: tuple[int, str], response: Any, answered: Callable[[Any], None]) -> None:
        moved = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        if response is None or not moved.isdisjoint(error_codes(response)):
            self._coordinators.pop(key, None)
        answered(response)


_LED: Final = (ProduceRequest, FetchRequest, ListOffsetsRequest, DeleteRecordsRequest)


def _coordinator_key(request: Any) -> tuple[int, str] | None:
    """(type, key) as FindCoordinator has them."""
    name = type(request).__name__
    if name in ("InitProducerIdRequest", "AddOffsetsToTxnRequest", "EndTxnRequest"):
        return (1, request.transactional_id) if request.transactional_id else None
    if name == "AddPartitionsToTxnRequest":
        return 1, request.v3_and_below_transactional_id
    if name == "OffsetFetchRequest" and request.groups:
        return 0, request.groups[0].group_id
    group_id = getattr(request, "group_id", None)
    return (0, group_id) if group_id else None


def error_codes(response: Any) -> set[int]:
    """All that stand anywhere in it."""
    codes: set[int] = set()
    todo = [response]
    while todo:
        each = todo.pop()
        for name in getattr(type(each), "__slots__", ()):
            value = getattr(each, name)
            if name.endswith("error_code"):
                codes.add(value)
            elif isinstance(value, list):
                todo += [item for item in value if hasattr(type(item), "__slots__")]
    return codes


def _refused(request: ProduceRequest) -> ProduceResponse:
    """Nobody leads these partitions, as far as the metadata says."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=_NO_ID,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _put_together(request: ProduceRequest, responses: Sequence[Any]) -> ProduceResponse:
    """In the order of the request; what has no answer has timed out."""
    told: dict[tuple[str, bytes, int], PartitionProduceResponse] = {}
    for response in responses:
        for topic in response.responses if response is not None else ():
            for part in topic.partition_responses:
                told[topic.name, topic.topic_id, part.index] = part
    whole = ProduceResponse(responses=[])
    for data in request.topic_data:
        parts = []
        for wanted in data.partition_data:
            found = told.get((data.name, _NO_ID, wanted.index)) or told.get(("", data.topic_id, wanted.index))
            parts.append(
                found
                or PartitionProduceResponse(index=wanted.index, error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1)
            )
        whole.responses.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=parts))
    return whole


_NO_ID: Final = bytes(16)
