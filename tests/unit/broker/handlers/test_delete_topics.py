"""DeleteTopics: by name, by id, and what is refused."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_TOPIC_ID
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def make(lab: Any, *names: str) -> None:
    topics = [CreatableTopic(name=n, num_partitions=2, replication_factor=1, assignments=[], configs=[]) for n in names]
    answer = lab.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=False))
    assert all(topic.error_code == 0 for topic in answer.topics)


def by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)


def by_state(*states: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=n, topic_id=i) for n, i in states], timeout_ms=1000)


def outcome(result: Any) -> tuple[str | None, str, str | None]:
    return result.name, ErrorCode(result.error_code).name, result.error_message


@pytest.mark.parametrize("version", range(1, 6))
def test_by_name_in_every_older_version(lab: Any, version: int) -> None:
    make(lab, "clicks", "views")
    gone, unknown = lab.ask(by_name("clicks", "nope"), version).responses
    assert outcome(gone)[:2] == ("clicks", "NONE")
    assert outcome(unknown)[:2] == ("nope", "UNKNOWN_TOPIC_OR_PARTITION")
    if version >= 5:
        assert unknown.error_message == "This server does not host this topic-partition."
    assert set(lab.broker.image.ids_by_name) == {"views"}


def test_the_log_goes_too_and_the_name_is_free_again(lab: Any) -> None:
    make(lab, "clicks")
    lab.append("clicks", 0, 3)
    before = lab.broker.image.topic("clicks").topic_id
    lab.ask(by_name("clicks"), 5)
    assert not any(key.topic_id == before for key in lab.broker.partitions)
    assert not lab.disk.exists("/data/clicks-0")
    make(lab, "clicks")
    assert lab.broker.image.topic("clicks").topic_id != before
    assert lab.broker.partition("clicks", 0).log.log_end_offset == 0


def test_by_id_and_by_name_in_version_6(lab: Any) -> None:
    make(lab, "a", "b")
    id_a, id_b = (lab.broker.image.topic(name).topic_id for name in "ab")
    first, second = lab.ask(by_state((None, id_a), ("b", NO_TOPIC_ID))).responses
    assert (first.name, first.topic_id, first.error_code) == ("a", id_a, 0)
    assert (second.name, second.topic_id, second.error_code) == ("b", id_b, 0)
    assert lab.broker.image.topics == {}


@pytest.mark.parametrize(
    ("states", "code", "message"),
    [
        ([(None, b"x" * 16)], "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ([(None, NO_TOPIC_ID)], "INVALID_REQUEST", "Neither topic name nor id were specified."),
        ([("a", b"x" * 16)], "INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ([("a", NO_TOPIC_ID), ("a", NO_TOPIC_ID)], "INVALID_REQUEST", "Duplicate topic name."),
        ([("nope", NO_TOPIC_ID), ("nope", NO_TOPIC_ID)], "INVALID_REQUEST", "Duplicate topic name."),
        ([(None, b"x" * 16), (None, b"x" * 16)], "INVALID_REQUEST", "Duplicate topic id."),
        ([("bad name", NO_TOPIC_ID)], "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
    ],
)
def test_what_is_refused_and_how(lab: Any, states: list[tuple[str | None, bytes]], code: str, message: str) -> None:
    make(lab, "a")
    (result,) = lab.ask(by_state(*states)).responses
    assert outcome(result)[1:] == (code, message)
    assert set(lab.broker.image.ids_by_name) == {"a"}


def test_one_topic_by_name_and_by_id_is_deleted_once(lab: Any) -> None:
    make(lab, "a")
    topic_id = lab.broker.image.topic("a").topic_id
    first, second = lab.ask(by_state(("a", NO_TOPIC_ID), (None, topic_id))).responses
    assert (outcome(first)[1], outcome(second)[1]) == ("NONE", "INVALID_REQUEST")


@pytest.mark.parametrize(("version", "code"), [(1, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")])
def test_deletion_can_be_switched_off(make_lab: Any, version: int, code: str) -> None:
    lab = make_lab(delete_topic_enable="false")
    make(lab, "a")
    (result,) = lab.ask(by_name("a"), version).responses
    assert ErrorCode(result.error_code).name == code
    assert set(lab.broker.image.ids_by_name) == {"a"}


def test_two_clients_that_delete_at_once(lab: Any) -> None:
    make(lab, "a")
    first, second = lab.begin(by_name("a"), 5), lab.begin(by_name("a"), 5)
    lab.settle()
    assert outcome(first.response.responses[0])[1] == "NONE"
    assert outcome(second.response.responses[0])[1] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_deletion_that_cannot_be_stored_leaves_the_topic(lab: Any) -> None:
    make(lab, "a")
    lab.disk.faults.syncs_to_fail = 1
    (result,) = lab.ask(by_name("a"), 5).responses
    assert outcome(result)[1] == "KAFKA_STORAGE_ERROR"
    assert set(lab.broker.image.ids_by_name) == {"a"}
