"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_cluster import DescribeClusterRequest
from headwater.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headwater.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest

NO_OPERATIONS = -(2**31)


@pytest.fixture(name="lab")
def lab_with_topics(make_lab: Any) -> Any:
    lab = make_lab(log_dirs="/data,/more")
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in (("b", 3), ("a", 2), ("__consumer_offsets", 1))
    ]
    lab.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=False))
    return lab


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_as_its_clients_reach_it(lab: Any, version: int) -> None:
    lab.add_broker(2)
    answer = lab.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (lab.broker.image.cluster_id, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, None),
    ]
    assert answer.cluster_authorized_operations == 8096


def test_operations_only_on_demand(lab: Any) -> None:
    answer = lab.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    assert answer.cluster_authorized_operations == NO_OPERATIONS


@pytest.mark.parametrize(("kind", "code"), [(2, "MISMATCHED_ENDPOINT_TYPE"), (9, "UNSUPPORTED_ENDPOINT_TYPE")])
def test_controllers_are_not_here(lab: Any, kind: int, code: str) -> None:
    answer = lab.ask(DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind))
    assert ErrorCode(answer.error_code).name == code
    assert answer.error_message
    assert answer.brokers == []


# DescribeTopicPartitions


def page(
    lab: Any, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, str, list[int]]], tuple[str, int] | None]:
    answer = lab.ask(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
    )
    following = answer.next_cursor and (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    topics = [
        (topic.name, ErrorCode(topic.error_code).name, [p.partition_index for p in topic.partitions])
        for topic in answer.topics
    ]
    return topics, following


def test_all_topics_in_the_order_of_their_names(lab: Any) -> None:
    expected = [("__consumer_offsets", "NONE", [0]), ("a", "NONE", [0, 1]), ("b", "NONE", [0, 1, 2])]
    assert page(lab, []) == (expected, None)


def test_a_topic_with_its_id_leaders_and_operations(lab: Any) -> None:
    asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")], response_partition_limit=10, cursor=None)
    (topic,) = lab.ask(asked).topics
    assert topic.topic_id == lab.broker.image.topic("a").topic_id
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    part = topic.partitions[1]
    assert (part.leader_id, part.leader_epoch, part.replica_nodes, part.isr_nodes) == (1, 0, [1], [1])
    assert (part.eligible_leader_replicas, part.last_known_elr, part.offline_replicas) == ([], [], [])


def test_pages_go_on_where_the_last_one_ended(lab: Any) -> None:
    assert page(lab, [], 3) == ([("__consumer_offsets", "NONE", [0]), ("a", "NONE", [0, 1])], ("b", 0))
    assert page(lab, [], 2, ("b", 0)) == ([("b", "NONE", [0, 1])], ("b", 2))
    assert page(lab, [], 2, ("b", 2)) == ([("b", "NONE", [2])], None)
    assert page(lab, ["b", "a"], 1) == ([("a", "NONE", [0])], ("a", 1))
    assert page(lab, ["b", "a"], 4, ("a", 1)) == ([("a", "NONE", [1]), ("b", "NONE", [0, 1, 2])], None)


def test_every_limit_gives_every_partition_once(lab: Any) -> None:
    for limit in range(1, 8):
        seen: list[tuple[str, int]] = []
        cursor: tuple[str, int] | None = None
        for _ in range(10):
            topics, cursor = page(lab, [], limit, cursor)
            seen += [(name, index) for name, _, indexes in topics for index in indexes]
            if cursor is None:
                break
        assert seen == [("__consumer_offsets", 0), ("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


def test_the_brokers_limit_holds_too(make_lab: Any) -> None:
    lab = make_lab(max_request_partition_size_limit="2")
    topic = CreatableTopic(name="a", num_partitions=3, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    assert page(lab, [], 100) == ([("a", "NONE", [0, 1])], ("a", 2))
    assert page(lab, [], 0) == ([("a", "NONE", [0])], ("a", 1))


def test_topics_that_are_not_there(lab: Any) -> None:
    assert page(lab, ["nope", "bad name", "a"]) == (
        [
            ("a", "NONE", [0, 1]),
            ("bad name", "INVALID_TOPIC_EXCEPTION", []),
            ("nope", "UNKNOWN_TOPIC_OR_PARTITION", []),
        ],
        None,
    )


@pytest.mark.parametrize("cursor", [("a", -1), ("nope", 0)])
def test_a_cursor_that_makes_no_sense(lab: Any, cursor: tuple[str, int]) -> None:
    assert page(lab, ["a", "b"], 10, cursor) == ([("a", "INVALID_REQUEST", []), ("b", "INVALID_REQUEST", [])], None)


def test_a_cursor_beyond_the_end_of_its_topic(lab: Any) -> None:
    assert page(lab, ["a"], 10, ("a", 10)) == ([("a", "NONE", [])], None)


def test_a_cursor_whose_topic_has_been_deleted(lab: Any) -> None:
    assert page(lab, [], 10, ("aa", 5)) == ([("b", "NONE", [0, 1, 2])], None)


# DescribeLogDirs


def log_dirs(lab: Any, topics: list[tuple[str, list[int]]] | None, version: int = 5) -> Any:
    asked = None if topics is None else [DescribableLogDirTopic(topic=t, partitions=p) for t, p in topics]
    return lab.ask(DescribeLogDirsRequest(topics=asked), version)


@pytest.mark.parametrize("version", range(1, 6))
def test_every_partition_stands_in_one_directory(lab: Any, version: int) -> None:
    lab.append("a", 1, 5)
    answer = log_dirs(lab, None, version)
    found = {
        (topic.name, part.partition_index): part.partition_size
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
    }
    assert [result.log_dir for result in answer.results] == ["/data", "/more"]
    assert set(found) == {("__consumer_offsets", 0), ("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)}
    assert found.pop(("a", 1)) == lab.broker.partition("a", 1).log.size_bytes() > 0
    assert set(found.values()) == {0}
    if version >= 4:
        assert all(result.total_bytes >= result.usable_bytes > 0 for result in answer.results)


def test_only_what_is_asked_for(lab: Any) -> None:
    answer = log_dirs(lab, [("a", [0, 9]), ("nope", [0])])
    assert [(t.name, p.partition_index) for r in answer.results for t in r.topics for p in t.partitions] == [("a", 0)]
    assert [result.topics for result in log_dirs(lab, []).results] == [[], []]


def test_a_directory_whose_disk_is_gone(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(path: str) -> tuple[int, int]:
        if path == "/more":
            raise OSError(5, "Input/output error")
        return 100, 50

    monkeypatch.setattr(lab.disk, "usage", usage)
    good, bad = log_dirs(lab, None).results
    assert (good.error_code, good.total_bytes, good.usable_bytes) == (0, 100, 50)
    assert ErrorCode(bad.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert bad.topics == []
