"""Produce, read from the bytes of its frame: what a hostile frame may cost."""

import struct
from typing import Any

import pytest

from headwater.broker.handlers import produce
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Counting(bytearray):
    """A frame that counts how often one of its bytes is asked for."""

    asked = 0

    def __getitem__(self, at: Any) -> Any:
        self.asked += 1
        return super().__getitem__(at)


class NoTopics:
    def __init__(self) -> None:
        self.partitions_by_wire_name: dict[bytes, Any] = {}
        self.partitions_by_topic_id: dict[bytes, Any] = {}


def test_a_size_that_never_ends_is_given_up_after_five_bytes() -> None:
    head = struct.pack(">hBBhiB", -1, 0, 0, 1, 1000, 2) + b"\x02t" + struct.pack(">Bi", 2, 0)
    frame = Counting(head + b"\xff" * 10_000)
    assert produce.handle_frame(NoTopics(), frame, 0, len(frame), 9, 1) is None  # type: ignore[arg-type]
    assert frame.asked < 10


@pytest.mark.parametrize("problem", [struct.error, IndexError])
def test_what_breaks_behind_the_write_does_not_append_the_batch_once_more(
    lab: Any, problem: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for a frame that cannot be read, and the general way appended the batch again."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    data = PartitionProduceData(index=0, records=bytes(build_batch([Record(0, lab.clock.now_ms(), b"key", b"value")])))
    request = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    frame = memoryview(bytearray(encode_request_header(0, 9, 1, "tests") + b"".join(request.encode(9))))
    log = lab.broker.partition("t", 0).log
    append = type(log).append_as_leader

    def broken(*arguments: Any, **named: Any) -> None:
        append(*arguments, **named)
        raise problem

    monkeypatch.setattr(type(log), "append_as_leader", broken)
    with pytest.raises(problem):
        produce.handle_frame(lab.broker, frame, 8, len(frame), 9, 1)
    assert log.log_end_offset == 1
