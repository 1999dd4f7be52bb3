"""What a slot tells of its tasks."""

from types import SimpleNamespace
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.streams.slot.slot_report import SlotReport


def test_a_position_that_is_looked_for_is_not_waited_for_and_ends_nothing() -> None:
    """The report waited for a leader that was away, a minute for each partition, and then ended the application."""
    timeouts: list[float | None] = []

    def position(partition: TopicPartition, timeout: float | None = None) -> int:
        if partition.topic == "known":
            return 7
        timeouts.append(timeout)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: no position in time")

    inputs = [TopicPartition("known", 0), TopicPartition("reset", 0)]
    task: Any = SimpleNamespace(
        name="0_0",
        is_running=True,
        inputs=lambda _: inputs,
        task=SimpleNamespace(group=SimpleNamespace(queues={tuple(each): () for each in inputs})),
        restore=SimpleNamespace(records=0, offsets=0, offsets_total=0),
    )
    consumer: Any = SimpleNamespace(position=position, current_lag=lambda _: 2)
    report = SlotReport()
    report.note_inputs([task], {}, consumer)
    assert report.rows([task])[0]["inputs"] == [
        {"topic": "known", "partition": 0, "position": 7, "end": 9, "lag": 2},
        {"topic": "reset", "partition": 0, "position": None, "end": None, "lag": None},
    ]
    assert timeouts == [0]
