"""What clients rarely show: idempotent sequences, fetch sessions, leader epochs, request by request."""

import importlib
import time
from datetime import timedelta
from typing import Any

from compat.support import raw
from compat.support.raw import (
    Raw,
    batch,
    fetch,
    fetched,
    init_producer,
    make_topic,
    message,
    metadata,
    produce,
    produced,
)

OFFSET_OUT_OF_RANGE = 1
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75


def test_producer_ids_differ(broker_address: str) -> None:
    with Raw(broker_address) as connection:
        ids = [init_producer(connection) for _ in range(20)]
    assert len({producer_id for producer_id, _ in ids}) == 20
    assert {epoch for _, epoch in ids} == {0}


def test_idempotent_sequences(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        producer_id, epoch = init_producer(connection)

        def send(sequence: int, count: int = 2, epoch: int = epoch) -> tuple[int, int]:
            values = [b"%d" % (sequence + n) for n in range(count)]
            data = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            return produced(connection.call(produce(topic, data)))

        for sequence in range(0, 14, 2):
            assert send(sequence) == (0, sequence)
        for sequence in range(4, 14, 2):  # the last five batches are known: answered again, not appended
            assert send(sequence) == (0, sequence)
        assert send(16)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(0, count=1)[0] in (OUT_OF_ORDER_SEQUENCE_NUMBER, 46)
        assert send(14) == (0, 14)
        assert send(3, epoch=epoch + 1)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER  # a new epoch begins at 0
        assert send(0, epoch=epoch + 1) == (0, 16)
        assert send(16)[0] == INVALID_PRODUCER_EPOCH
        assert send(2, epoch=epoch + 1) == (0, 18)


def test_fetch_sessions(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        assert produced(connection.call(produce(topic, batch(b"first")))) == (0, 0)
        full = connection.call(fetch(topic, 0, session_epoch=0))
        session_id = full.session_id
        assert session_id != 0
        assert b"first" in fetched(full)[1]

        nothing = connection.call(fetch(topic, 1, session_id=session_id, session_epoch=1, wait_ms=10))
        assert (nothing.session_id, nothing.error_code) == (session_id, 0)
        assert nothing.responses == ()
        assert produced(connection.call(produce(topic, batch(b"second")))) == (0, 1)
        # no partition named: the session knows what it asks for, and from where
        more = connection.call(fetch(None, session_id=session_id, session_epoch=2))
        assert b"second" in fetched(more)[1]

        assert (
            connection.call(fetch(None, session_id=session_id, session_epoch=9)).error_code
            == INVALID_FETCH_SESSION_EPOCH
        )
        unknown = connection.call(fetch(None, session_id=session_id ^ 0x5A5A5A5, session_epoch=1))
        assert unknown.error_code == FETCH_SESSION_ID_NOT_FOUND
        # a full fetch without a session closes it
        closing = connection.call(fetch(topic, 0, session_id=session_id, session_epoch=-1))
        assert closing.session_id == 0
        gone = connection.call(fetch(None, session_id=session_id, session_epoch=3))
        assert gone.error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_session_forgets_partitions(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        session_id = connection.call(fetch(topic, 0, session_epoch=0, wait_ms=1)).session_id
        forgotten = message("fetch", 12, "ForgottenTopic")(topic=topic, partitions=(0,))
        request = message("fetch", 12, "FetchRequest")(
            max_wait=timedelta(milliseconds=10),
            min_bytes=1,
            session_id=session_id,
            session_epoch=1,
            topics=(),
            forgotten_topics_data=(forgotten,),
        )
        assert connection.call(request).responses == ()
        assert produced(connection.call(produce(topic, batch(b"unseen")))) == (0, 0)
        assert connection.call(fetch(None, session_id=session_id, session_epoch=2, wait_ms=10)).responses == ()


def _end_of_epoch(connection: Raw, topic: str, epoch: int, current: int = -1, version: int = 4) -> Any:
    api = "offset_for_leader_epoch"
    partition = message(api, version, "OffsetForLeaderPartition")(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    asked = message(api, version, "OffsetForLeaderTopic")(topic=topic, partitions=(partition,))
    request = message(api, version, "OffsetForLeaderEpochRequest")
    fields: dict[str, Any] = {} if version < 3 else {"replica_id": -1}
    return connection.call(request(topics=(asked,), **fields)).topics[0].partitions[0]


def test_offset_for_leader_epoch(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        assert produced(connection.call(produce(topic, batch(b"a", b"b", b"c")))) == (0, 0)
        epoch = connection.call(metadata(topic)).topics[0].partitions[0].leader_epoch
        assert epoch >= 0
        for version in (2, 3, 4):
            found = _end_of_epoch(connection, topic, epoch, version=version)
            assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, 3)
        assert _end_of_epoch(connection, topic, epoch, current=epoch).end_offset == 3
        later = _end_of_epoch(connection, topic, epoch + 5)
        assert (later.error_code, later.leader_epoch, later.end_offset) == (0, -1, -1)
        assert _end_of_epoch(connection, topic, epoch, current=epoch + 5).error_code == UNKNOWN_LEADER_EPOCH
        if epoch > 0:
            assert _end_of_epoch(connection, topic, epoch, current=epoch - 1).error_code == FENCED_LEADER_EPOCH
        assert _end_of_epoch(connection, f"{topic}.none", 0).error_code == 3


def test_every_version_of_produce_and_fetch(broker_address: str, topic: str) -> None:
    """Each version that is served carries the same record in and out.
    From Produce 13 and Fetch 13 on, topics go by id.
    """
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        for number, version in enumerate(range(3, 13)):
            request = produce(topic, batch(b"by version %d" % version), version=version)
            assert produced(connection.call(request)) == (0, number), version
        for version in range(4, 13):
            response = connection.call(_fetch(version, topic))
            answer = response.responses[0].partitions[0]
            assert answer.error_code == 0, version
            assert b"by version 12" in bytes(answer.records), version
        topic_id = _topic_id(connection, topic)
        for version in range(13, 19):
            if not _known(version):
                continue
            response = connection.call(_fetch(version, topic_id))
            assert response.responses[0].topic_id == topic_id
            assert b"by version 12" in bytes(response.responses[0].partitions[0].records), version


def _known(version: int) -> bool:
    """Whether the oracle has this version of Fetch."""
    try:
        importlib.import_module(f"kio.schema.fetch.v{version}.request")
    except ModuleNotFoundError:
        return False
    return True


def _topic_id(connection: Raw, topic: str) -> Any:
    asked = message("metadata", 12, "MetadataRequestTopic")(topic_id=None, name=topic)
    request = message("metadata", 12, "MetadataRequest")(
        topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return connection.call(request).topics[0].topic_id


def _fetch(version: int, topic: Any) -> Any:
    wanted = message("fetch", version, "FetchPartition")(partition=0, fetch_offset=9, partition_max_bytes=1 << 20)
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    asked = message("fetch", version, "FetchTopic")(partitions=(wanted,), **name)
    fields: dict[str, Any] = {"max_wait": timedelta(milliseconds=100), "min_bytes": 1, "topics": (asked,)}
    if version >= 7:
        fields["forgotten_topics_data"] = ()
    if version < 15:
        fields["replica_id"] = -1
    return message("fetch", version, "FetchRequest")(**fields)


def test_a_fetch_takes_one_batch_even_if_it_is_larger_than_asked_for(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        for _ in range(2):
            connection.call(produce(topic, batch(b"x" * 5000)))
        wanted = message("fetch", 12, "FetchPartition")(partition=0, fetch_offset=0, partition_max_bytes=100)
        asked = message("fetch", 12, "FetchTopic")(topic=topic, partitions=(wanted,))
        request = message("fetch", 12, "FetchRequest")(
            max_wait=timedelta(milliseconds=100), min_bytes=1, max_bytes=100, topics=(asked,), forgotten_topics_data=()
        )
        error, records = fetched(connection.call(request))
        assert error == 0
        assert 5000 < len(records) < 10_000


def test_a_record_in_the_future_is_refused(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        data = raw.batch(b"from tomorrow", timestamp=int(time.time() * 1000) + 86_400_000)
        assert produced(connection.call(produce(topic, data)))[0] == 32
        data = raw.batch(b"from yesterday", timestamp=int(time.time() * 1000) - 86_400_000)
        assert produced(connection.call(produce(topic, data))) == (0, 0)
