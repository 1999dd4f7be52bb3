"""Writing at least once: a row that no broker took fails the task, wherever among the others it was."""

from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.spark.writer import data_source_writers
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.rows import send_rows

TOO_LARGE = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "refused")


class FakeDelivery:
    def __init__(self, error: KafkaError | None, done: bool) -> None:
        self.error = error
        self.is_done = done
        self.looked_at = False

    def done(self) -> bool:
        return self.is_done

    def result(self) -> None:
        self.looked_at = True
        if self.error is not None:
            raise self.error


class FakeProducer:
    """Answers in turn with what it is given; what is not done is so after a flush."""

    def __init__(self, answers: list[FakeDelivery]) -> None:
        self.answers = list(answers)
        self.topics: list[str] = []

    def __enter__(self) -> "FakeProducer":
        return self

    def __exit__(self, *_: object) -> None: ...

    def send_arrow(self, part: pyarrow.RecordBatch, topic: str, **_: Any) -> FakeDelivery:
        assert part.num_rows
        self.topics.append(topic)
        return self.answers.pop(0)

    def flush(self) -> None: ...


def written(monkeypatch: pytest.MonkeyPatch, *answers: FakeDelivery) -> None:
    producer = FakeProducer(list(answers))
    monkeypatch.setattr(data_source_writers, "Producer", lambda _: producer)
    rows = [pyarrow.RecordBatch.from_pydict({"value": [str(number)]}) for number in range(len(answers))]
    data_source_writers.write_plainly(SinkOptions("localhost:9092", "out", "at-least-once", "headwater"), iter(rows))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("done", [True, False], ids=["known at once", "known at the end"])
def test_a_row_that_was_refused_fails_the_task(monkeypatch: pytest.MonkeyPatch, place: int, done: bool) -> None:
    """It was left out in silence: a flush waits for all, and raises for none."""
    answers = [FakeDelivery(TOO_LARGE if number == place else None, done) for number in range(3)]
    with pytest.raises(KafkaError, match="refused"):
        written(monkeypatch, *answers)


def test_every_delivery_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [FakeDelivery(None, done) for done in (True, False, True)]
    written(monkeypatch, *answers)
    assert all(each.looked_at for each in answers)


def test_each_row_goes_to_the_topic_of_its_column() -> None:
    producer: Any = FakeProducer([FakeDelivery(None, True), FakeDelivery(None, True)])
    batch = pyarrow.RecordBatch.from_pydict({"value": ["a", "b", "c"], "topic": ["x", "y", "x"]})
    assert len(send_rows(producer, batch, None)) == 2
    assert producer.topics == ["x", "y"]


def test_a_row_without_a_topic_is_an_error_that_says_so() -> None:
    batch = pyarrow.RecordBatch.from_pydict({"value": ["a", "b"], "topic": ["x", None]})
    nobody: Any = SimpleNamespace()
    with pytest.raises(UserError, match="A row has no topic"):
        send_rows(nobody, batch, None)
