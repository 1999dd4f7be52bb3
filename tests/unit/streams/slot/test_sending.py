"""How the records of a commit reach the producer: as lists per partition, or one by one."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.streams.model.record import OutputRecord
from headwater.streams.slot.refusals import Refused
from headwater.streams.slot.sending import send_all
from headwater.streams.stores.state import ChangelogPartition

TOO_LARGE = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "5000 bytes")


class Writing:
    """A producer that notes what it is given; each topic has one partition for keys, and those that records name."""

    takes_many = True

    def __init__(self, refused: bytes | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._refused = refused

    def send(self, topic: str, value: bytes | None, *, key: bytes | None, partition: int | None, **_: Any) -> Any:
        self.calls.append(("send", topic, partition, key, value))
        if value is not None and value == self._refused:
            raise TOO_LARGE
        offset = self._written(topic, partition, 1)
        metadata = SimpleNamespace(topic=topic, partition=partition or 0, offset=offset)
        return SimpleNamespace(result=lambda: metadata)

    def send_many(
        self, topic: str, values: Any, *, keys: Any, partition: int | None, timestamps_ms: Any
    ) -> SimpleNamespace:
        self.calls.append(("send_many", topic, partition, list(zip(keys, values, timestamps_ms, strict=True))))
        if self._refused in values:
            raise TOO_LARGE
        last = self._written(topic, partition, len(values))
        metadata = SimpleNamespace(partitions={partition or 0: SimpleNamespace(last=last)})
        return SimpleNamespace(result=lambda: metadata)

    def flush(self) -> None:
        pass

    def _written(self, topic: str, partition: int | None, count: int) -> int:
        place = (topic, partition or 0)
        self._ends[place] = self._ends.get(place, 0) + count
        return self._ends[place] - 1


def record(topic: str, partition: int | None, number: int, **changed: Any) -> OutputRecord:
    return OutputRecord(topic, partition, b"k%d" % number, b"v%d" % number, number)._replace(**changed)


def test_few_records_go_as_a_list_per_partition_in_their_order() -> None:
    producer: Any = Writing()
    rows = [record("changes", number % 2, number) for number in range(5)] + [record("out", None, 9)] * 3
    positions = send_all(producer, rows)()
    assert producer.calls == [
        ("send_many", "changes", 0, [(b"k0", b"v0", 0), (b"k2", b"v2", 2), (b"k4", b"v4", 4)]),
        ("send_many", "changes", 1, [(b"k1", b"v1", 1), (b"k3", b"v3", 3)]),
        ("send_many", "out", None, [(b"k9", b"v9", 9)] * 3),
    ]
    assert positions == {
        ChangelogPartition("changes", 0): 3,
        ChangelogPartition("changes", 1): 2,
        ChangelogPartition("out", 0): 3,
    }


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"value": None}, id="a tombstone"),
        pytest.param({"key": None}, id="without a key"),
        pytest.param({"headers": (("h", b"1"),)}, id="with headers"),
        pytest.param({"partition": None}, id="without the partition that others name"),
    ],
)
def test_what_a_list_cannot_say_goes_one_by_one_with_its_neighbours(other: dict[str, Any]) -> None:
    producer: Any = Writing()
    rows = [record("out", 1, number) for number in range(4)]
    rows[2] = rows[2]._replace(**other)
    send_all(producer, rows)()
    assert [call[0] for call in producer.calls] == ["send"] * 4
    assert [call[3:] for call in producer.calls] == [(row.key, row.value) for row in rows]


def test_a_producer_with_choices_of_its_own_gets_one_by_one() -> None:
    producer: Any = Writing()
    producer.takes_many = False
    send_all(producer, [record("out", None, number) for number in range(4)])()
    assert [call[0] for call in producer.calls] == ["send"] * 4


def test_of_a_list_that_is_refused_nobody_is_blamed_until_they_go_one_by_one() -> None:
    producer: Any = Writing(refused=b"v2")
    rows = [record("out", None, number) for number in range(4)]
    with pytest.raises(Refused) as first:
        send_all(producer, rows)()
    assert not first.value.certain
    assert first.value.records == {}
    with pytest.raises(Refused) as second:
        send_all(producer, rows, frozenset())()
    assert second.value.certain
    assert set(second.value.records) == {id(rows[2])}
