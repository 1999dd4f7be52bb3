"""Files of moves, and the throttles that follow from them."""

import json

import pytest

from headwater.base.ids import TopicPartition
from headwater.cli.kafka.delete_records import read_offsets
from headwater.cli.kafka.leader_election import read_partitions
from headwater.cli.kafka.options import Stop
from headwater.cli.kafka.replica_moves import Found, state_line
from headwater.cli.reassignments import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    Move,
    ReassignmentError,
    ReplicaPlace,
    moves_of,
    moving_brokers,
    read_brokers,
    read_topics,
    read_wanted,
    to_json,
    topic_throttles,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 10)


def test_a_file_is_read_as_it_is_written() -> None:
    text = to_json({B: [2, 3], A: [1]}, {ReplicaPlace(2, "b", 10): "/disk"})
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["any"]},'
        '{"topic":"b","partition":10,"replicas":[2,3],"log_dirs":["/disk","any"]}]}'
    )
    wanted = read_wanted(text)
    assert wanted.checked() == {A: [1], B: [2, 3]}
    assert wanted.directories == {ReplicaPlace(2, "b", 10): "/disk"}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": 2}', '{"partitions": [{"topic": "a"}]}', '{"partitions": [1]}', '{"partitions": [{"topic": "a", "partition": "x", "replicas": [1]}]}'],
)  # fmt: skip
def test_files_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ReassignmentError):
        read_wanted(text).checked()


@pytest.mark.parametrize(
    "changed",
    [
        {"replicas": "12"},
        {"replicas": [1.9]},
        {"replicas": [True]},
        {"replicas": ["1"]},
        {"replicas": [2**31]},
        {"partition": 0.5},
        {"partition": 2**31},
        {"topic": None},
        {"log_dirs": "d"},
    ],
)
def test_fields_of_another_type_are_not_taken_for_what_they_look_like(changed: dict[str, object]) -> None:
    """`"replicas": "12"` moved the partition to the brokers 1 and 2."""
    partition = {"topic": "t", "partition": 0, "replicas": [1], **changed}
    with pytest.raises(ReassignmentError, match="A partition needs topic, partition and replicas"):
        read_wanted(json.dumps({"partitions": [partition]}))
    if not changed.keys() & {"replicas", "log_dirs"}:
        with pytest.raises(Stop):
            read_partitions(json.dumps({"partitions": [partition]}))
        with pytest.raises(Stop, match="A partition needs topic, partition and offset"):
            read_offsets(json.dumps({"partitions": [{**partition, "offset": 5}]}))


@pytest.mark.parametrize("offset", [5.7, "5", True, None, 2**63])
def test_an_offset_is_a_whole_number(offset: object) -> None:
    with pytest.raises(Stop, match="A partition needs topic, partition and offset"):
        read_offsets(json.dumps({"partitions": [{"topic": "t", "partition": 0, "offset": offset}]}))


def test_a_list_that_is_none_is_refused() -> None:
    for text in ('{"partitions": null}', '{"partitions": {"topic": "t"}}'):
        with pytest.raises(ReassignmentError, match="The value of partitions is no array"):
            read_wanted(text)
    with pytest.raises(ReassignmentError, match="The value of topics is no array"):
        read_topics('{"topics": null}')


def test_topics_and_brokers_of_a_plan() -> None:
    assert read_topics(json.dumps({"topics": [{"topic": "x"}, {"topic": "y"}]})) == ["x", "y"]
    assert read_brokers("1,2") == [1, 2]
    with pytest.raises(ReassignmentError, match=r"List of topics to reassign contains duplicate entries: \[x\]"):
        read_topics(json.dumps({"topics": [{"topic": "x"}, {"topic": "x"}]}))
    with pytest.raises(ReassignmentError, match=r"Broker list contains duplicate entries: \[2\]"):
        read_brokers("1,2,2")
    with pytest.raises(ReassignmentError):
        read_brokers("1,x")


def test_throttles_are_for_the_sources_and_for_what_is_new() -> None:
    moves = moves_of({}, {A: [2, 3]}, {A: [1, 2]})
    assert moves == {A: Move(frozenset({1, 2}), frozenset({3}))}
    assert topic_throttles(moves) == {"a": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"}}
    assert moving_brokers(moves) == [1, 2, 3]


def test_what_is_under_way_already_stays_throttled() -> None:
    ongoing = {A: ([1, 2, 3], [3]), B: ([4, 5], [5])}
    moves = moves_of(ongoing, {A: [1, 4]}, {A: [1, 2, 3]})
    assert moves[A] == Move(frozenset({1, 2}), frozenset({4}))
    assert moves[B] == Move(frozenset({4}), frozenset({5}))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Found("/a", "/b"), "Reassignment of replica t-0-1 is still in progress."),
        (Found("/a", "/c"), "Partition t-0 on broker 1 is being moved to log dir /c instead of /b."),
        (Found("/b", None), "Reassignment of replica t-0-1 completed successfully."),
        (Found("/a", None), "Partition t-0 on broker 1 is not being moved from log dir /a to /b."),
        (Found(None, None), "Partition t-0 is not found in any live log dir on broker 1. There is likely an offline "),
    ],
)
def test_a_move_between_directories_is_told(found: Found, said: str) -> None:
    assert state_line(ReplicaPlace(1, "t", 0), "/b", found).startswith(said)


def test_partitions_to_elect_leaders_of() -> None:
    assert read_partitions('{"partitions": [{"topic": "a", "partition": 0}]}') == [A]
    for text in ("", "{}", '{"partitions": [{"topic": "a"}]}', '{"partitions": [3]}'):
        with pytest.raises(Stop):
            read_partitions(text)
