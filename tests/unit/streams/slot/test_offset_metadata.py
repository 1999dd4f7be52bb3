"""Partition times and close times beside committed offsets."""

import base64

import pytest

from headwater.streams import App, tumbling
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.slot.offset_metadata import OffsetMetadata, decode_metadata, encode_metadata
from headwater.streams.stores.memory import MemoryState


def test_the_form_is_kafka_streams_own() -> None:
    metadata = OffsetMetadata(1_700_000_000_000)
    assert encode_metadata(metadata) == "AgAAAYvP5WgA"  # 2, then 8 bytes of milliseconds
    assert decode_metadata("AgAAAYvP5WgA") == metadata
    assert decode_metadata("AQAAAYvP5WgA") == metadata  # of Kafka Streams before 3.3


def test_close_times_are_kafka_streams_processor_metadata() -> None:
    metadata = OffsetMetadata(5, {"counts": 7})
    expected = b"\x02" + bytes(7) + b"\x05" + b"\0\0\0\x01" + b"\0\0\0\x06counts" + bytes(7) + b"\x07"
    assert base64.b64decode(encode_metadata(metadata)) == expected
    assert decode_metadata(encode_metadata(metadata)) == metadata
    for size in range(10, len(expected)):  # torn: the partition's time is still good
        assert decode_metadata(base64.b64encode(expected[:size]).decode()) == OffsetMetadata(5)


@pytest.mark.parametrize("text", ["", "no base64!", "AQ==", "CQAAAYvP5WgA"])
def test_what_others_have_written_there_is_no_time(text: str) -> None:
    assert decode_metadata(text) == OffsetMetadata()


def _closing() -> App:
    app = App("app", key="text", value="text")
    counts = app.stream("in").group_by_key().windowed_by(tumbling("10ms")).emit("close").count(store="counts")
    counts.to_stream().to("out")
    return app


def test_final_results_do_not_go_out_again_when_the_times_are_lost() -> None:
    app = _closing()
    plan, settings = app.topology().sub_topologies()[0], app.settings(emit_interval_ms=0, partition_count=lambda _: 1)
    state = MemoryState()

    def written(task: Task, offset: int, timestamp: int) -> int:
        task.add("in", [InputRecord("in", 0, offset, timestamp, b"k", b"v")])
        task.process()
        return len(task.collect().records)

    before = Task(plan, 0, settings, state)
    assert [written(before, 0, 1), written(before, 1, 15)] == [0, 1]
    metadata = decode_metadata(encode_metadata(OffsetMetadata(15, before.close_times)))
    assert metadata.close_times == {"counts": 15}
    for beside in (state.notes, state.times):  # the stores come back from the changelog, these may not
        for key, _ in list(beside.scan()):
            beside.put(key, None)
    after = Task(plan, 0, settings, state)
    after.load_close_times(metadata.close_times)
    assert written(after, 2, 16) == 0
    assert written(after, 3, 25) == 1
