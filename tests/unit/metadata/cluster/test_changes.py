"""Entries of the log: they read as they were written, and may be met again."""

from dataclasses import replace

import pytest

from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster.changes import (
    Announced,
    PartitionsAddedFrom,
    apply_news,
    decode_entry,
    encode_entry,
)
from headwater.metadata.image import (
    AddressConfigured,
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    Change,
    ClientConfigured,
    ClusterImage,
    GroupConfigured,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    UserConfigured,
)
from unit.metadata.cluster.cluster_store_support import me, topic_id

ONE = topic_id(1)
CREATED = TopicCreated("a", ONE, ((0, 1),), {"x": "y"})


def state(version: int, partition: int = 0, leader: int = 0) -> PartitionChanged:
    in_sync = (BrokerId(0), BrokerId(1))
    return PartitionChanged(
        ONE, partition, BrokerId(leader), LeaderEpoch(version), in_sync, in_sync, (7, 8), (BrokerId(1),), (), version
    )


EVERYTHING: list[Announced] = [
    CREATED,
    state(0),
    PartitionsAddedFrom(ONE, 1, ((1,), (0,))),
    TopicConfigured(ONE, {"x": "z"}),
    BrokerConfigured("", {"a": "b"}),
    GroupConfigured("g", {"a": "b"}),
    UserConfigured("u", {"a": "b"}),
    ClientConfigured("u", "c", {"a": "b"}),
    ClientConfigured(None, "", {"a": "b"}),
    AddressConfigured("10.0.0.1", {"a": "b"}),
    BrokerRegistered(replace(me(1), epoch=5, is_stopping=True)),
    TopicDeleted(topic_id(2)),
]


def image() -> ClusterImage:
    made = ClusterImage("x")
    made.apply(BrokerRegistered(replace(me(1), epoch=5)))
    made.apply(TopicCreated("b", topic_id(2), ((1,),), {}))
    return made


def test_an_entry_reads_as_it_was_written() -> None:
    assert decode_entry(encode_entry(EVERYTHING)) == EVERYTHING


@pytest.mark.parametrize(
    "data", [b"", b"7", b"{}", b"[7]", b"null", b"\xff", b'[{"type":"TopicPainted"}]', b'[{"type":"TopicDeleted"}]']
)
def test_what_cannot_be_read_is_left_out(data: bytes) -> None:
    assert decode_entry(data) == []


def test_what_a_later_version_says_beside_is_skipped() -> None:
    entry = encode_entry([TopicDeleted(ONE)])
    assert decode_entry(entry[:-2] + b',"colour":"blue"},{"type":"TopicPainted"}]') == [TopicDeleted(ONE)]


def test_an_entry_met_again_is_no_news() -> None:
    once, twice = image(), image()
    told = apply_news(EVERYTHING, once)
    assert told == [*EVERYTHING[:2], PartitionsAdded(ONE, ((1,), (0,))), *EVERYTHING[3:]]
    apply_news(EVERYTHING, twice)
    assert apply_news(EVERYTHING, twice) == []
    assert once == twice


@pytest.mark.parametrize(
    "old",
    [
        state(2),
        state(1),
        state(9, partition=1),  # a partition that is not there
        replace(state(9), topic_id=topic_id(9)),
        PartitionsAddedFrom(ONE, 0, ((1,),)),
        PartitionsAddedFrom(ONE, 2, ((1,),)),
        PartitionsAddedFrom(topic_id(9), 0, ((1,),)),
        TopicConfigured(topic_id(9), {}),
        TopicDeleted(topic_id(9)),
        TopicCreated("a", topic_id(3), ((1,),), {}),  # an older one of that name; the newer is known
        TopicCreated("c", ONE, ((1,),), {}),
        TopicCreated("gone", topic_id(4), ((1,),), {}),
        BrokerRegistered(replace(me(1), epoch=4, is_stopping=True)),  # of another life
        BrokerRegistered(replace(me(2), epoch=6, is_stopping=True)),  # who lives is not told by the log
    ],
)
def test_what_is_too_old_is_no_news(old: Announced) -> None:
    known = image()
    changes: list[Change] = [
        CREATED,
        state(2),
        TopicCreated("gone", topic_id(4), ((1,),), {}),
        TopicDeleted(topic_id(4)),
    ]
    for change in changes:
        known.apply(change)
    before = encode_of(known)
    assert apply_news([old], known) == []
    assert encode_of(known) == before


def encode_of(known: ClusterImage) -> str:
    return repr(known)


def test_of_partitions_that_are_partly_known_the_others_are_news() -> None:
    known = image()
    known.apply(CREATED)
    assert apply_news([PartitionsAddedFrom(ONE, 0, ((0, 1), (2,)))], known) == [PartitionsAdded(ONE, ((2,),))]


def test_a_broker_that_is_gone_does_not_come_back_by_the_log() -> None:
    known = image()
    known.apply(BrokerGone(BrokerId(1)))
    assert apply_news([BrokerRegistered(replace(me(1), epoch=5, is_stopping=True))], known) == []
