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


def codes(answer: Any) -> dict[str, int]:
    results = getattr(answer, "topics", None) or getattr(answer, "responses", None) or answer.results
    return {result.name: result.error_code for result in results}


def deletion(*states: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(states), topic_names=[state.name for state in states], timeout_ms=1000)


def addition(counts: list[tuple[str, int]]) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts]
    return CreatePartitionsRequest(topics=topics, timeout_ms=1000)


def overdraw(lab: Any) -> None:
    assert codes(ask(lab, creation("overdrawn", partitions=100), 7)) == {"overdrawn": 0}


# What is refused for another reason takes no tokens, and leaves them to what stands behind it


@pytest.fixture
def filled(limited: Any) -> Any:
    """With topics of somebody else's."""
    for name, partitions in (("big", 100), ("small", 1)):
        ask(limited, creation(name, partitions=partitions), 7, principal="User:bob")
    return limited


def test_a_topic_that_exists_takes_nothing(filled: Any) -> None:
    request = creation("big", partitions=100)
    request.topics += creation("new", partitions=1).topics
    answer = ask(filled, request, 7)
    assert codes(answer) == {"big": int(ErrorCode.TOPIC_ALREADY_EXISTS), "new": 0}
    assert answer.throttle_time_ms == 0


def test_partitions_that_cannot_be_added_take_nothing(filled: Any) -> None:
    by_hand = addition([("big", 110), ("small", 2)])
    by_hand.topics[0].assignments = []  # for ten
    answer = ask(filled, by_hand, 3)
    assert codes(answer) == {"big": int(ErrorCode.INVALID_REPLICA_ASSIGNMENT), "small": 0}
    assert answer.throttle_time_ms == 0


def test_a_topic_with_both_a_name_and_an_id_takes_nothing(filled: Any) -> None:
    both = DeleteTopicState(name="big", topic_id=filled.broker.image.topic("big").topic_id)
    answer = ask(filled, deletion(both, DeleteTopicState(name="small")), 6)
    assert codes(answer) == {"big": int(ErrorCode.INVALID_REQUEST), "small": 0}
    assert answer.throttle_time_ms == 0
    assert codes(ask(filled, creation("new", partitions=1), 7)) == {"new": 0}


@pytest.mark.parametrize("is_overdrawn", [False, True])
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (creation("new", "new", partitions=6), 7),
        (addition([("big", 110), ("big", 110)]), 3),
        (deletion(DeleteTopicState(name="big"), DeleteTopicState(name="big")), 6),
        (deletion(DeleteTopicState(name="big"), DeleteTopicState(name="big")), 5),
    ],
)
def test_a_name_that_stands_there_twice_is_refused_whatever_the_bucket_says(
    filled: Any, request_: Any, version: int, is_overdrawn: bool
) -> None:
    """Not overdrawn, it would be by the first of the two."""
    if is_overdrawn:
        overdraw(filled)
    assert list(codes(ask(filled, request_, version)).values()) == [int(ErrorCode.INVALID_REQUEST)]
    assert "new" not in filled.broker.image.ids_by_name
    assert len(filled.broker.image.topic("big").partitions) == 100


def test_an_old_version_does_not_wait_for_what_was_not_made(limited: Any) -> None:
    overdraw(limited)
    answer = ask(limited, creation("overdrawn"), 5)
    assert (codes(answer), answer.throttle_time_ms) == ({"overdrawn": int(ErrorCode.TOPIC_ALREADY_EXISTS)}, 0)


@pytest.mark.parametrize("is_in_cluster", [False, True])
def test_metadata_does_not_wait_for_a_topic_that_was_not_made(limited: Any, is_in_cluster: bool) -> None:
    def needs(name: str) -> Any:
        return ask(limited, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)

    overdraw(limited)
    if is_in_cluster:
        limited.broker.peers = FakePeers()
    assert needs("over.drawn").throttle_time_ms > 0
    answer = needs("over_drawn")  # collides
    assert codes(answer) == {"over_drawn": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert answer.throttle_time_ms == 0


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


def test_a_name_with_half_a_character_is_told_with_a_question_mark() -> None:
    assert origin_in(sent_on("User:a\udc80", "b\ud800")) == Origin("User:a?", "b?")


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


def test_another_user_on_the_listener_of_brokers_counts_itself_whoever_it_names(make_lab: Any) -> None:
    lab = make_lab(
        listeners="SASL_PLAINTEXT://:0",
        security_inter_broker_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512",
        sasl_jaas_config=(
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="p";'
        ),
    )
    lab.broker.peers = FakePeers()
    for user in ("alice", "mallory"):
        lab.broker.image.apply(UserConfigured(user, {"controller_mutation_rate": "0.5"}))
        lab.broker.apply([UserConfigured(user, {})])
    names = [sent_on(), f"{FORWARDED_CLIENT}-broker-2", "tests"]
    got = [
        codes(ask(lab, creation(name, partitions=6), 7, client_id, "User:mallory", "SASL_PLAINTEXT"))
        for name, client_id in zip("abc", names, strict=True)
    ]
    assert got == [{"a": 0}, {"b": EXCEEDED}, {"c": EXCEEDED}]
    for name, code in (("d", 0), ("e", EXCEEDED)):  # of alice, who has lost nothing by it
        answer = ask(lab, creation(name, partitions=6), 7, sent_on(), "User:broker", "SASL_PLAINTEXT")
        assert codes(answer) == {name: code}


def test_a_change_that_fails_gives_back_what_it_took_though_nobody_waits_for_its_answer(cluster: Any) -> None:
    """The connection between the brokers is gone by then."""
    store = cluster.broker.changes._store
    commit, committing = store.commit, []
    store.commit = lambda _changes, done: committing.append(done)
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:broker")
    frame = encode_request_header(19, 7, 7, sent_on()) + b"".join(creation("a", partitions=100).encode(7))
    begin(cluster.broker, connection, memoryview(bytearray(frame))).result.cancel()
    store.commit = commit
    (committed,) = committing
    committed(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert codes(ask(cluster, creation("b", "c", partitions=5), 7)) == {"b": 0, "c": 0}


def test_of_somebody_who_asked_elsewhere_only_changes_are_measured(cluster: Any) -> None:
    every = {"controller_mutation_rate": "1", "producer_byte_rate": "1", "consumer_byte_rate": "1"}
    every["request_percentage"] = "1"
    cluster.broker.image.apply(UserConfigured("alice", every))
    cluster.broker.apply([UserConfigured("alice", {})])
    frame = encode_request_header(19, 7, 7, sent_on()) + b"".join(creation("a").encode(7))
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:broker")
    begin(cluster.broker, connection, memoryview(bytearray(frame)))
    cluster.settle()
    assert [used.quota for used, _ in cluster.broker.quotas.used()] == ["controller_mutation_rate"]


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
