"""Metadata in all its versions: who is asked for, how often, by name or by id, and what is not made."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.handlers import metadata
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def request(*names: str | None, allow: bool = True, ids: tuple[bytes, ...] = ()) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=allow)


def create(lab: Any, *names: str) -> list[bytes]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return [bytes(topic.topic_id) for topic in lab.ask(CreateTopicsRequest(topics=topics)).topics]


def outcome(response: Any) -> list[tuple[str | None, str]]:
    return [(t.name, ErrorCode(t.error_code).name) for t in response.topics]


@pytest.mark.parametrize("version", range(14))
def test_all_none_and_some_in_every_version(lab: Any, version: int) -> None:
    create(lab, "orders", "clicks")
    nothing = lab.ask(MetadataRequest(topics=[]), version)
    assert len(nothing.topics) == (2 if version == 0 else 0)
    if version:
        assert len(lab.ask(MetadataRequest(topics=None), version).topics) == 2
    answer = lab.ask(request("orders", "no such", allow=version < 4), version)
    assert outcome(answer) == [("orders", "NONE"), ("no such", "INVALID_TOPIC_EXCEPTION")]
    assert [(b.node_id, b.host) for b in answer.brokers] == [(1, "host1")]
    part = answer.topics[0].partitions[0]
    assert (part.leader_id, part.replica_nodes, part.isr_nodes) == (1, [1], [1])


def test_a_topic_that_is_asked_for_twice_is_answered_once(lab: Any) -> None:
    orders, clicks = create(lab, "orders", "clicks")
    assert outcome(lab.ask(request("orders", "orders", "none", "none", allow=False))) == [
        ("orders", "NONE"),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    unknown = bytes(15) + b"x"
    assert outcome(lab.ask(request(ids=(orders, unknown, orders, clicks, unknown)))) == [
        ("orders", "NONE"),
        (None, "UNKNOWN_TOPIC_ID"),
        ("clicks", "NONE"),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_their_version_are_refused_and_do_not_break_the_encoder(lab: Any, version: int) -> None:
    """Names could be null and ids be sent before the broker was ready to be asked by them."""
    (orders,) = create(lab, "orders")
    answer = lab.ask(request(ids=(orders, bytes(15) + b"x")), version)
    assert outcome(answer) == [("", "INVALID_REQUEST"), ("", "INVALID_REQUEST")]


def test_two_new_names_that_collide_make_one_topic(lab: Any) -> None:
    lab.ask(request("a.b", "a_b"))
    assert list(lab.broker.image.ids_by_name) == ["a.b"]


def test_a_factor_that_the_cluster_cannot_reach_is_named(make_lab: Any) -> None:
    lab = make_lab(default_replication_factor="3")
    assert outcome(lab.ask(request("orders"))) == [("orders", "INVALID_REPLICATION_FACTOR")]


def test_internal_topics_are_not_made_in_passing(lab: Any) -> None:
    """They have counts and configs of their own, and those who need them make them."""
    names = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
    answers = outcome(lab.ask(request(*names)))
    assert [name for name, code in answers if code == "NONE"] == []
    assert not lab.broker.image.topics


def test_a_change_that_the_disk_refuses_is_answered_all_the_same(lab: Any) -> None:
    lab.disk.faults.free_bytes = 0
    assert outcome(lab.ask(request("orders"))) == [("orders", "UNKNOWN_TOPIC_OR_PARTITION")]
    lab.disk.faults.free_bytes = 1 << 40
    assert outcome(lab.ask(request("orders"))) == [("orders", "NONE")]


def test_one_request_cannot_make_any_number_of_topics(make_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_PER_REQUEST_MAX", 8)
    lab = make_lab(num_partitions="4")
    answers = outcome(lab.ask(request("a", "b", "c")))
    assert [code for _, code in answers] == ["NONE", "NONE", "POLICY_VIOLATION"]
