"""What the names of files say, and what follows from them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.offset_options import LogFacts, parse_offsets, resolve
from headwater.spark.sinks import file_names
from headwater.spark.sinks.file_names import TopicFile

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True)
offsets = st.integers(min_value=0, max_value=(1 << 63) - 1)


@given(topics, st.integers(min_value=0, max_value=99999), offsets, offsets)
def test_a_name_is_read_as_it_was_written(topic: str, partition: int, start: int, end: int) -> None:
    file = TopicFile(topic, partition, start, end)
    assert file_names.parse(file.name) == file


def test_names_are_padded_as_confluents_sink_pads_them() -> None:
    assert TopicFile("clicks", 3, 120, 184).name == "clicks+3+0000000120+0000000184.parquet"
    assert TopicFile("clicks", 3, 120, 184).directory == "topic=clicks/partition=3"


def test_names_sort_as_their_offsets_do() -> None:
    files = [TopicFile("t", 0, start, start + 9) for start in range(0, 2000, 10)]
    assert sorted(file.name for file in files) == [file.name for file in files]


@pytest.mark.parametrize("name", ["part-0000.parquet", "t+0+1+2.parquet", "t+0+0000000001+0000000002.parquet.crc", ""])
def test_files_of_others_are_passed_over(name: str) -> None:
    assert file_names.parse(name) is None
    assert file_names.last_offsets([name]) == {}


def test_the_last_end_counts() -> None:
    files = [TopicFile("t", 0, 10, 19), TopicFile("t", 0, 0, 9), TopicFile("t", 1, 0, 3), TopicFile("u", 0, 5, 5)]
    done = file_names.last_offsets(file.name for file in files)
    assert done == {TopicPartition("t", 0): 19, TopicPartition("t", 1): 3, TopicPartition("u", 0): 5}
    assert json.loads(file_names.starting_offsets_json(done)) == {"t": {"0": 20, "1": 4}, "u": {"0": 6}}


def test_partitions_without_files_are_read_from_their_beginning() -> None:
    """The option was refused, "must name all partitions", where a partition of the topic had no file yet."""
    done = {TopicPartition("t", 1): 19, TopicPartition("other", 0): 3}
    made = file_names.starting_offsets_json(done, {"t": 3, "new": 1})
    assert json.loads(made) == {"t": {"0": -2, "1": 20, "2": -2}, "other": {"0": 4}, "new": {"0": -2}}
    parsed = parse_offsets("startingOffsets", file_names.starting_offsets_json({TopicPartition("t", 1): 19}, {"t": 2}))
    facts = {TopicPartition("t", each): LogFacts(5, 30) for each in range(2)}
    starts = resolve(parsed, facts, "startingOffsets", nothing_so_young_is_latest=False)
    assert starts == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 20}


def test_files_that_overlap_are_told() -> None:
    first, second = TopicFile("t", 0, 0, 9), TopicFile("t", 0, 9, 12)
    assert file_names.overlap([second, TopicFile("t", 1, 0, 9), first]) == (first, second)
    assert file_names.overlap([first, TopicFile("t", 0, 10, 12), TopicFile("u", 0, 0, 5)]) is None
    with pytest.raises(UserError, match="both hold offset 9"):
        file_names.refuse_overlap("/out", [second.name, first.name])


def test_no_files_no_condition() -> None:
    assert file_names.not_yet_in_files({}) is None
