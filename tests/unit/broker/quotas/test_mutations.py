"""The quota of changes that the controller makes: refused where the version knows how, told to wait in any case."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.origins import FORWARDED_CLIENT, Origin, origin_in, told
from headwater.broker.quotas.meter import Meter
from headwater.metadata.image import UserConfigured
from headwater.server.dispatch import begin
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.broker.fake_peers import FakePeers

EXCEEDED = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.fixture
def limited(lab: Any) -> Any:
    """One partition in two seconds; 11 windows' worth, 5.5 of them, at once."""
    lab.broker.image.apply(UserConfigured("alice", {"controller_mutation_rate": "0.5"}))
    lab.broker.apply([UserConfigured("alice", {})])
    return lab


def ask(
    lab: Any,
    request: Any,
    version: int,
    client_id: str = "tests",
    principal: str = "User:alice",
    listener: str = "PLAINTEXT",
) -> Any:
    connection = ConnectionContext("127.0.0.1", 5000, listener, principal)
    connection.meter = Meter(lab.broker.quotas, connection.principal)
    frame = encode_request_header(request.KEY, version, 7, client_id) + b"".join(request.encode(version))
    answer = begin(lab.broker, connection, memoryview(bytearray(frame))).result
    assert isinstance(answer, Deferred)
    lab.settle()
    return answer.response


def creation(*names: str, partitions: int = 4, **more: Any) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, **more)


def test_what_is_too_much_is_refused_with_how_long_to_wait(limited: Any) -> None:
    answer = ask(limited, creation("a", "b", "c"), 7)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", 0), ("b", 0), ("c", EXCEEDED)]
    assert answer.throttle_time_ms == 5000  # 8 were made of 5.5
    assert sorted(limited.broker.image.ids_by_name) == ["a", "b"]
    limited.clock.advance(5000)
    answer = ask(limited, creation("c"), 7)
    assert [(topic.error_code, answer.throttle_time_ms) for topic in answer.topics] == [(0, 0)]


def test_versions_that_do_not_know_the_error_are_served_and_told_to_wait(limited: Any) -> None:
    answer = ask(limited, creation("a", "b", "c"), 5)
    assert [topic.error_code for topic in answer.topics] == [0, 0, 0]
    assert answer.throttle_time_ms == 13_000


def test_what_was_not_done_costs_nothing(limited: Any) -> None:
    ask(limited, creation("a", partitions=5), 7)
    for _ in range(5):
        answer = ask(limited, creation("a", partitions=50), 7)
        assert [topic.error_code for topic in answer.topics] == [int(ErrorCode.TOPIC_ALREADY_EXISTS)]
        assert answer.throttle_time_ms == 0
    ask(limited, creation("b", partitions=1000, validate_only=True), 7)
    assert ask(limited, creation("b", partitions=1), 7).topics[0].error_code == 0


@pytest.mark.parametrize(("version", "code"), [(6, EXCEEDED), (5, EXCEEDED), (4, 0)])
def test_deleting_topics_counts_their_partitions(limited: Any, version: int, code: int) -> None:
    ask(limited, creation("a", "b"), 7)
    for _ in range(2):
        limited.clock.advance(100_000)
        by_name = [DeleteTopicState(name="a")]
        answer = ask(limited, DeleteTopicsRequest(topics=by_name, topic_names=["a"], timeout_ms=1000), version)
        assert answer.responses[0].error_code == (0 if _ == 0 else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    topic_id = limited.broker.image.topic("b").topic_id
    ask(limited, creation("big", partitions=6), 7)
    states = [DeleteTopicState(name=None, topic_id=topic_id)]
    answer = ask(limited, DeleteTopicsRequest(topics=states, topic_names=["b"], timeout_ms=1000), version)
    assert answer.responses[0].error_code == code
    assert answer.throttle_time_ms > 0


@pytest.mark.parametrize(("version", "code"), [(3, EXCEEDED), (2, 0)])
def test_adding_partitions_counts_the_new_ones(limited: Any, version: int, code: int) -> None:
    ask(limited, creation("a"), 7)
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=6, assignments=None)], timeout_ms=1000)
    assert ask(limited, more, version).results[0].error_code == 0
    more.topics[0].count = 8
    answer = ask(limited, more, version)
    assert (answer.results[0].error_code, answer.throttle_time_ms > 0) == (code, True)


def test_a_topic_that_stands_there_twice_costs_nothing(limited: Any) -> None:
    answer = ask(limited, creation("a", "a", partitions=2), 7)
    assert {topic.error_code for topic in answer.topics} == {int(ErrorCode.INVALID_REQUEST)}
    assert [topic.error_code for topic in ask(limited, creation("b", "c", partitions=5), 7).topics] == [0, 0]


# In a cluster: by the controller, for whoever asked first


@pytest.fixture
def cluster(limited: Any) -> Any:
    limited.broker.peers = FakePeers()
    limited.broker.image.controller_id = limited.broker.broker_id
    return limited


def sent_on(principal: str = "User:alice", client_id: str | None = "tests") -> str:
    """The client id with which another broker asks."""
    context = RequestContext(ConnectionContext("127.0.0.1", 5000, "CLIENTS", principal), 19, 7, client_id)
    return f"{FORWARDED_CLIENT}-broker-2" + told(context)


@pytest.mark.parametrize(
    ("principal", "client_id"),
    [("User:alice", "tests"), ("User:CN=a b,O=\u00e9 %20", "my app\0\n"), ("User:", ""), ("User:x", None)],
)
def test_names_are_read_back_as_they_were(principal: str, client_id: str | None) -> None:
    assert origin_in(sent_on(principal, client_id)) == Origin(principal, client_id or "")


def test_names_fit_into_a_header_whatever_they_are() -> None:
    encode_request_header(19, 7, 1, sent_on("\U0001f600" * 9000, "\U0001f600" * 9000))


@pytest.mark.parametrize("client_id", [None, "", "app", "my big app", f"{FORWARDED_CLIENT}-broker-2"])
def test_other_client_ids_name_nobody(client_id: str | None) -> None:
    assert origin_in(client_id) is None


def test_what_brokers_send_on_counts_for_whoever_asked_there(cluster: Any) -> None:
    assert ask(cluster, creation("a"), 7).topics[0].error_code == 0
    at_two = ask(cluster, creation("b"), 7, sent_on(), "User:broker")
    assert at_two.topics[0].error_code == 0
    at_three = ask(cluster, creation("c"), 7, sent_on(), "User:broker")
    assert (at_three.topics[0].error_code, at_three.throttle_time_ms) == (EXCEEDED, 5000)
    of_bob = ask(cluster, creation("d"), 7, sent_on("User:bob"), "User:broker")
    assert (of_bob.topics[0].error_code, of_bob.throttle_time_ms) == (0, 0)
    for name in ("e", "f"):  # of brokers themselves, or of those that do not say for whom they ask
        assert ask(cluster, creation(name), 7, f"{FORWARDED_CLIENT}-broker-2").topics[0].error_code == 0


def test_a_client_that_names_somebody_else_counts_itself(cluster: Any) -> None:
    for name, code in (("a", 0), ("b", 0), ("c", EXCEEDED)):
        answer = ask(cluster, creation(name), 7, sent_on("User:bob"), listener="CLIENTS")
        assert answer.topics[0].error_code == code


def test_a_broker_that_is_not_the_controller_counts_nothing_and_says_who_asks(cluster: Any) -> None:
    cluster.add_broker(2)
    cluster.broker.image.controller_id = BrokerId(2)
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:alice")
    connection.meter = Meter(cluster.broker.quotas, connection.principal)
    for name in "abcde":
        request = creation(name)
        frame = encode_request_header(19, 7, 7, "my app") + b"".join(request.encode(7))
        begin(cluster.broker, connection, memoryview(bytearray(frame)))
        asked = cluster.broker.peers.take()
        assert [topic.name for topic in asked.request.topics] == [name]
        assert origin_in(FORWARDED_CLIENT + asked.origin) == Origin("User:alice", "my app")


def test_what_is_refused_stays_in_the_request_for_another_attempt(cluster: Any) -> None:
    """A broker that has just been elected is asked again by itself, with all of it."""
    ask(cluster, creation("a", partitions=6), 7)
    refuses = True
    submit = cluster.broker.changes.submit

    def refuse_once(plan: Any, done: Any) -> None:
        nonlocal refuses
        if refuses:
            refuses = False
            plan()
            done(KafkaError(ErrorCode.NOT_CONTROLLER))
        else:
            submit(plan, done)

    cluster.clock.advance(1000)  # enough for one more
    cluster.broker.changes.submit = refuse_once
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:alice")
    request = creation("b", "c", partitions=2)
    frame = encode_request_header(19, 7, 7, "tests") + b"".join(request.encode(7))
    answer = begin(cluster.broker, connection, memoryview(bytearray(frame))).result
    for _ in range(10):
        cluster.clock.advance(10)
        cluster.settle()
    assert not refuses
    assert {topic.name: topic.error_code for topic in answer.response.topics} == {"b": 0, "c": EXCEEDED}


def test_topics_that_make_themselves_count_too_and_are_made(cluster: Any) -> None:
    """By the controller; another broker tells its client how long to wait."""

    def needs(*names: str) -> Any:
        return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])

    names = [f"t{number}" for number in range(8)]
    answer = ask(cluster, needs(*names), 9)
    assert {topic.error_code for topic in answer.topics} == {0}
    partitions = sum(len(topic.partitions) for topic in answer.topics)
    assert answer.throttle_time_ms == (partitions - 5.5) * 2000
