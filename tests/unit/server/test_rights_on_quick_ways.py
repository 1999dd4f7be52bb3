"""The quick ways of Produce and Fetch for users with access rules: none of them is a way round the guards.

Each is tried compiled and in Python. A change of the rules between two requests of one connection, a topic that was
deleted and made again, and the end of the session make them decline, and the general way then says what the guards say.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.acls import Operation, PatternType, Permission, ResourceType
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.broker.handlers import produce as produce_in_python
from headwater.broker.rights.connection_rights import FOR_EVER_NS, TOPICS_MAX, ConnectionRights
from headwater.broker.topics import plan_topic
from headwater.metadata.image import AclsSet, Change, TopicDeleted
from headwater.server import hot_fetch, hot_path
from headwater.server.node import Node
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from unit.server.support.by_hand import TOPIC, Client, fetch, fetched, frame, produce, produced

DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def commit(node: Node, plan: Callable[[], list[Change]]) -> None:
    done: list[KafkaError | None] = []
    node.broker.changes.submit(plan, done.append)
    assert node.loop.run_until(lambda: bool(done), 60_000)
    assert done == [None]


def create(node: Node, name: str) -> None:
    commit(node, lambda: [plan_topic(node.broker, name, 1, 1, {})])


def delete(node: Node, name: str) -> None:
    commit(node, lambda: [TopicDeleted(node.broker.image.topic(name).topic_id)])


def rules(node: Node, *operations: Operation, topic: str = TOPIC, deny: bool = False) -> None:
    """The only rules on the topic from now on."""
    permission = Permission.DENY if deny else Permission.ALLOW
    made = tuple(("User:ANONYMOUS", "*", int(operation), int(permission)) for operation in operations)
    commit(node, lambda: [AclsSet(int(ResourceType.TOPIC), int(PatternType.LITERAL), topic, made)])


@pytest.fixture
def guarded(make_node: Callable[..., Node]) -> Node:
    node = make_node(authorizer_class_name=AUTHORIZER, super_users="User:admin")
    create(node, TOPIC)
    return node


@pytest.fixture
def client(guarded: Node) -> Iterator[Client]:
    made = Client(guarded)
    yield made
    made.socket.close()


Answers = list[bool]
"""Of each request that came to the quick way: whether it was answered there."""


@pytest.fixture(params=["compiled", "python"])
def quick_produces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Answers:
    if request.param == "compiled" and not hot_path.COMPILED:
        pytest.fail("the hot path is not compiled")
    way: Any = hot_path.handle_frame if request.param == "compiled" else produce_in_python.handle_frame
    return _counted(monkeypatch, hot_path, way)


@pytest.fixture
def quick_fetches(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return _counted(monkeypatch, hot_fetch, hot_fetch.handle_frame)


def _counted(monkeypatch: pytest.MonkeyPatch, module: Any, way: Any) -> Answers:
    answers: Answers = []

    def counted(*arguments: Any) -> Any:
        answer = way(*arguments)
        answers.append(answer is not None)
        return answer

    monkeypatch.setattr(module, "handle_frame", counted)
    return answers


def send(client: Client, request: bytes) -> bytes:
    client.send(request)
    return client.receive()


def records_of(answer: bytes) -> tuple[int, int]:
    """Error code and size of the one partition."""
    (topic,) = fetched(answer).responses
    (part,) = topic.partitions
    return part.error_code, len(part.records or b"")


# A change of the rules


def test_a_produce_hears_of_a_changed_rule_on_its_connection(
    guarded: Node, client: Client, quick_produces: Answers
) -> None:
    rules(guarded, Operation.WRITE)
    assert [produced(send(client, produce(n))) for n in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert quick_produces == [False, True, True]  # the first was for the guard, which took note
    rules(guarded, Operation.WRITE, deny=True)
    assert produced(send(client, produce(4))) == (DENIED, -1)
    rules(guarded)
    assert produced(send(client, produce(5))) == (DENIED, -1)
    assert quick_produces[3:] == [False, False]
    rules(guarded, Operation.WRITE)
    assert [produced(send(client, produce(n))) for n in range(2)] == [(0, 3), (0, 4)]
    assert quick_produces[5:] == [False, True]


def test_a_fetch_hears_of_a_changed_rule_on_its_connection(
    guarded: Node, client: Client, quick_fetches: Answers
) -> None:
    rules(guarded, Operation.WRITE, Operation.READ)
    send(client, produce(1))
    before = [records_of(send(client, fetch(n, wait_ms=0))) for n in range(3)]
    assert {code for code, _ in before} == {0}
    assert all(size > 61 for _, size in before)
    assert quick_fetches == [False, True, True]
    rules(guarded, Operation.WRITE)
    assert records_of(send(client, fetch(4, wait_ms=0))) == (DENIED, 0)
    assert quick_fetches[3:] == [False]


def test_every_fetch_of_a_session_is_compared(guarded: Node, client: Client, quick_fetches: Answers) -> None:
    rules(guarded, Operation.WRITE, Operation.READ)
    send(client, produce(1))
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)

    def ask(session_id: int, epoch: int) -> bytes:
        topics = [FetchTopic(topic=TOPIC, partitions=[part])] if epoch == 0 else []
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1000,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
        )
        return frame(1, 11, 1, request.encode(11))

    session_id = fetched(send(client, ask(0, 0))).session_id
    assert records_of(send(client, ask(session_id, 1)))[1] > 61
    assert quick_fetches[-1]
    rules(guarded, Operation.READ, deny=True)
    assert records_of(send(client, ask(session_id, 2))) == (DENIED, 0)
    assert not quick_fetches[-1]


def test_a_right_on_one_topic_is_none_on_another(guarded: Node, client: Client, quick_produces: Answers) -> None:
    create(guarded, "other")
    rules(guarded, Operation.WRITE)
    assert [produced(send(client, produce(n)))[0] for n in range(2)] == [0, 0]
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="other", partition_data=[PartitionProduceData(index=0, records=bytes(_batch()))])
        ],
    )
    assert produced(send(client, frame(0, 9, 4, request.encode(9)))) == (DENIED, -1)
    assert not quick_produces[-1]


def test_who_may_write_may_not_read(guarded: Node, client: Client, quick_fetches: Answers) -> None:
    rules(guarded, Operation.WRITE)
    assert [produced(send(client, produce(n)))[0] for n in range(2)] == [0, 0]
    assert records_of(send(client, fetch(3, wait_ms=0))) == (DENIED, 0)
    assert quick_fetches == [False]


# A topic of the same name


def test_a_topic_that_was_made_again_is_asked_about_again(
    guarded: Node, client: Client, quick_produces: Answers, quick_fetches: Answers
) -> None:
    rules(guarded, Operation.WRITE, Operation.READ)
    assert [produced(send(client, produce(n))) for n in range(2)] == [(0, 0), (0, 1)]
    for n in range(2):
        send(client, fetch(n, wait_ms=0))
    delete(guarded, TOPIC)
    create(guarded, TOPIC)
    generation = guarded.broker.image.acl_generation
    assert produced(send(client, produce(3))) == (0, 0)
    send(client, fetch(4, wait_ms=0))
    assert (quick_produces, quick_fetches) == ([False, True, False], [False, True, False])
    assert guarded.broker.image.acl_generation == generation


# The session, and what the guards have not said


def _batch() -> bytearray:
    from headwater.records.builder import build_batch
    from headwater.records.reader import Record

    return build_batch([Record(0, 1_700_000_000_000, None, b"v", [])])


def _produce_frame(transactional_id: str | None = None) -> bytes:
    part = PartitionProduceData(index=0, records=bytes(_batch()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[part])],
    )
    return frame(0, 9, 1, request.encode(9))[4:]


def _quick_produce(rights: ConnectionRights, transactional_id: str | None = None) -> bytes | None:
    data = memoryview(bytearray(_produce_frame(transactional_id)))
    return hot_path.handle_frame(rights, data, 8, len(data), 9, 1)


def _quick_fetch(rights: ConnectionRights, replica_id: int = -1) -> list[Any] | None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )
    data = memoryview(bytearray(frame(1, 11, 1, request.encode(11))[4:]))
    return hot_fetch.handle_frame(rights, data, 8, len(data), 11, 1)


def _noted(node: Node, deadline_ns: int = FOR_EVER_NS) -> ConnectionRights:
    rights = ConnectionRights(node.broker, deadline_ns)
    topic_id = node.broker.image.topic(TOPIC).topic_id
    rights.note_readable(topic_id)
    rights.note_writable(topic_id)
    return rights


def test_what_is_noted_is_answered_at_once(guarded: Node, quick_produces: Answers) -> None:
    assert _quick_produce(_noted(guarded)) is not None
    assert _quick_fetch(_noted(guarded)) is not None


def test_after_the_end_of_the_session_nothing_is_answered(guarded: Node, quick_produces: Answers) -> None:
    over_ns = guarded.broker.clock.monotonic_ms() * 1_000_000
    assert _quick_produce(_noted(guarded, over_ns)) is None
    assert _quick_fetch(_noted(guarded, over_ns)) is None
    assert guarded.broker.partition(TOPIC, 0).log.log_end_offset == 0


def test_what_nobody_has_noted_is_not_answered(guarded: Node, quick_produces: Answers) -> None:
    fresh = ConnectionRights(guarded.broker)
    assert _quick_produce(fresh) is None
    assert _quick_fetch(fresh) is None
    fresh.generation = guarded.broker.image.acl_generation
    assert _quick_produce(fresh) is None
    assert _quick_fetch(fresh) is None


def test_transactions_and_followers_are_for_the_guards(guarded: Node, quick_produces: Answers) -> None:
    assert _quick_produce(_noted(guarded), "bank") is None
    assert _quick_fetch(_noted(guarded), replica_id=2) is None


def test_what_is_noted_belongs_to_one_generation_and_is_bounded(guarded: Node) -> None:
    rights = _noted(guarded)
    rules(guarded, Operation.WRITE)
    rights.note_readable(TopicId(bytes(16)))
    assert (rights.readable, rights.writable) == ({bytes(16)}, set())
    for number in range(TOPICS_MAX + 1):
        rights.note_writable(TopicId(number.to_bytes(16)))
    assert len(rights.writable) < TOPICS_MAX
