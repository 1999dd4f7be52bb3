"""Records that brokers refuse for good: who is blamed, and what the policy makes of them."""

from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.producer.producer import Producer
from headwater.streams import ErrorPolicy
from headwater.streams.engine.columns import OutputColumns
from headwater.streams.model.record import OutputRecord
from headwater.streams.slot.pending_outputs import PendingOutputs
from headwater.streams.slot.refusals import Refused, settle
from headwater.streams.slot.sending import send_all

GOOD = OutputRecord("out", None, b"good", b"v", 1, ())
BAD = OutputRecord("out", None, b"bad", b"x" * 5000, 2, ())
TOO_LARGE = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "5000 bytes")
INVALID = KafkaError(ErrorCode.INVALID_RECORD, "no key")


def test_the_policy_for_production_decides() -> None:
    refused = {id(BAD): TOO_LARGE}
    assert settle([GOOD, BAD], refused, ErrorPolicy(production="skip"), "app") == [GOOD]
    with pytest.raises(UserError, match="A record for the topic out is refused: key b'bad', 5003 bytes"):
        settle([GOOD, BAD], refused, ErrorPolicy(), "app")


@pytest.mark.parametrize(("error", "value"), [(TOO_LARGE, None), (INVALID, BAD.value)])
def test_a_dead_letter_takes_the_place_of_the_record_without_what_was_too_large(
    error: KafkaError, value: bytes | None
) -> None:
    kept = settle([BAD, GOOD], {id(BAD): error}, ErrorPolicy(production="dead_letter"), "app")
    assert kept[1] == GOOD
    letter = kept[0]
    assert (letter.topic, letter.key, letter.value, letter.timestamp) == ("app-dead-letters", b"bad", value, 2)
    assert dict(letter.headers)["__streams.errors.message"] == str(error).encode()


def test_a_dead_letter_that_is_refused_itself_ends_the_run() -> None:
    letter = GOOD._replace(topic="dlq")
    policy = ErrorPolicy(production="dead_letter", dead_letter_topic="dlq")
    with pytest.raises(UserError, match="A record for the topic dlq is refused"):
        settle([letter], {id(letter): INVALID}, policy, "app")


class Batching:
    """A producer whose batches end at a flush; a batch with a bad record is refused as a whole."""

    takes_many = False

    def __init__(self) -> None:
        self._batch: list[Any] = []

    def send(self, topic: str, value: bytes, *, key: bytes, **_: object) -> Any:
        producer, offset, batch = self, len(self._batch), self._batch

        class Delivery:
            def result(self) -> Any:
                if b"bad" in batch:
                    raise INVALID
                return type("Metadata", (), {"topic": topic, "partition": 0, "offset": offset})

        producer._batch.append(key)
        return Delivery()

    def flush(self) -> None:
        self._batch = []


def test_a_batch_is_under_suspicion_until_its_records_go_alone() -> None:
    producer: Producer = Batching()  # type: ignore[assignment]
    rows = [GOOD, BAD, GOOD._replace(value=b"w")]
    with pytest.raises(Refused) as first:
        send_all(producer, rows)()
    assert not first.value.certain
    assert set(first.value.records) == {id(row) for row in rows}
    producer.flush()
    with pytest.raises(Refused) as second:
        send_all(producer, rows, frozenset(first.value.records))()
    assert second.value.certain
    assert set(second.value.records) == {id(BAD)}


class Strict:
    """A producer that takes no record that is too large: it never leaves the process."""

    takes_many = False

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def send(self, topic: str, value: bytes, *, key: bytes, **_: object) -> Any:
        if len(value) > 1000:
            raise TOO_LARGE
        self.taken.append(key)
        metadata = type("Metadata", (), {"topic": topic, "partition": 0, "offset": len(self.taken) - 1})
        return type("Delivery", (), {"result": lambda _: metadata})()

    def flush(self) -> None:
        pass


def test_of_columns_no_other_record_is_left_out_than_the_one_that_is_refused() -> None:
    """Its records were made for the moment, and blamed by their identity: a good one had got that since."""
    outputs = PendingOutputs()
    for keys in ([b"a"], [b"b", b"bad"], [b"c"]):
        columns = OutputColumns("out")
        columns.keys, columns.values = list(keys), [BAD.value if key == b"bad" else b"v" for key in keys]
        columns.timestamps = [1] * len(keys)
        outputs.add((), [columns])
    with pytest.raises(Refused) as first:
        send_all(cast("Producer", Strict()), outputs.pieces)()
    assert (first.value.certain, first.value.records) == (False, {})
    records = outputs.as_records()
    with pytest.raises(Refused) as second:
        send_all(cast("Producer", Strict()), records, frozenset())()
    assert second.value.certain
    kept = settle(records, second.value.records, ErrorPolicy(production="skip"), "app")
    assert [each.key for each in kept] == [b"a", b"b", b"c"]
