"""The quota of changes that the controller makes: refused where the version knows how, told to wait in any case."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.quotas.meter import Meter
from headwater.metadata.image import UserConfigured
from headwater.server.dispatch import begin
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

EXCEEDED = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.fixture
def limited(lab: Any) -> Any:
    """One partition in two seconds; 11 windows' worth, 5.5 of them, at once."""
    lab.broker.image.apply(UserConfigured("alice", {"controller_mutation_rate": "0.5"}))
    lab.broker.apply([UserConfigured("alice", {})])
    return lab


def ask(lab: Any, request: Any, version: int) -> Any:
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:alice")
    connection.meter = Meter(lab.broker.quotas, connection.principal)
    frame = encode_request_header(request.KEY, version, 7, "tests") + b"".join(request.encode(version))
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
