"""What a call that sets offsets may say, in the words of Kafka Connect's worker (held against it by
`test_rest_answers_are_those_of_apaches_standalone_worker`).
"""

from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.runtime.offset_pairs import BadOffsets, pairs_of, sink_offsets

AT: dict[str, Any] = {"kafka_topic": "t", "kafka_partition": 0}


def taken(*pairs: tuple[Any, Any]) -> dict[TopicPartition, int | None]:
    return sink_offsets(pairs_of({"offsets": [{"partition": each, "offset": offset} for each, offset in pairs]}))


def test_numbers_are_taken_as_numbers_and_as_texts() -> None:
    assert taken((AT, {"kafka_offset": 5})) == {TopicPartition("t", 0): 5}
    assert taken(({**AT, "kafka_partition": "3"}, {"kafka_offset": "+5"})) == {TopicPartition("t", 3): 5}
    assert taken((AT, {"kafka_offset": (1 << 63) - 1})) == {TopicPartition("t", 0): (1 << 63) - 1}
    assert taken((AT, {"kafka_offset": 1}), (AT, {"kafka_offset": 2})) == {TopicPartition("t", 0): 2}
    assert taken((AT, None)) == {TopicPartition("t", 0): None}
    assert sink_offsets(pairs_of({"offsets": [{"partition": AT}]})) == {TopicPartition("t", 0): None}
    assert taken(({**AT, "more": 1}, {"kafka_offset": 1, "more": 2})) == {TopicPartition("t", 0): 1}


@pytest.mark.parametrize("number", [0.5, 1.0, True, "x", "1.5", "", " 1", "１", 1 << 31, [], "9" * 30])
def test_a_partition_is_a_whole_number(number: Any) -> None:
    with pytest.raises(BadOffsets, match="Failed to parse the following Kafka partition value"):
        taken(({**AT, "kafka_partition": number}, {"kafka_offset": 1}))


@pytest.mark.parametrize("number", [1.5, 2.0, False, "x", None, 1 << 63, 10**20, {}])
def test_an_offset_is_a_whole_number(number: Any) -> None:
    with pytest.raises(BadOffsets, match="Failed to parse the following Kafka offset value"):
        taken((AT, {"kafka_offset": number}))


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        ({"kafka_topic": "t"}, {"kafka_offset": 1}, "must contain the keys"),
        ({}, {"kafka_offset": 1}, "must contain the keys"),
        ({**AT, "kafka_topic": None}, {"kafka_offset": 1}, "topic names must be valid strings"),
        ({**AT, "kafka_partition": None}, {"kafka_offset": 1}, "partitions must be valid numbers"),
        (AT, {"offset": 1}, "contain the key 'kafka_offset'"),
        (AT, {}, "contain the key 'kafka_offset'"),
        (AT, {"kafka_offset": -1}, "negative"),
        (None, {"kafka_offset": 1}, "cannot be null or missing"),
        ("t-0", {"kafka_offset": 1}, "cannot be null or missing"),
        (AT, 5, "is an object, or null"),
    ],
)
def test_what_is_no_offset_of_a_sink_is_refused(partition: Any, offset: Any, why: str) -> None:
    with pytest.raises(BadOffsets, match=why):
        taken((partition, offset))


@pytest.mark.parametrize("body", [None, [], {}, {"offsets": []}, {"offsets": {}}, {"offsets": None}])
def test_a_call_without_offsets_is_refused(body: Any) -> None:
    with pytest.raises(BadOffsets, match="need to be provided"):
        pairs_of(body)


@pytest.mark.parametrize("body", [{"offsets": [{"partition": AT, "offsets": None}]}, {"offsets": [{}], "force": True}])
def test_a_slip_in_a_field_is_told_and_forgets_no_offset(body: Any) -> None:
    with pytest.raises(BadOffsets, match="Unrecognized field"):
        pairs_of(body)


def test_each_offset_is_an_object() -> None:
    with pytest.raises(BadOffsets, match="is an object with a partition and an offset"):
        pairs_of({"offsets": [5]})


@pytest.mark.parametrize("partition", [{"half \ud800": 1}, {"a": {"b": ["half \ud800"]}}])
def test_half_a_character_is_refused(partition: dict[str, Any]) -> None:
    """It was a 500 without a reason."""
    with pytest.raises(BadOffsets, match="no text in UTF-8"):
        pairs_of({"offsets": [{"partition": partition, "offset": {"n": 1}}]})
