"""The offsets of a SparkSink: what its checkpoint says after they were set."""

import json

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.spark.checkpoint import changed, parsed, reset_offsets, set_offsets
from headwater.connect.errors import ConnectError

ZERO, ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class MemoryFiles:
    def __init__(self, **texts: str) -> None:
        self.there = {name.replace("_", "/"): text for name, text in texts.items()}

    def names_in(self, path: str) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self.there if name.startswith(f"{path}/")]

    def read_text(self, path: str) -> str:
        return self.there[path]

    def delete(self, path: str) -> None:
        self.there = {name: text for name, text in self.there.items() if not name.startswith(f"{path}/")}

    def write_text(self, path: str, text: str, aside: str) -> None:
        assert aside.rpartition("/")[2].startswith(".")
        assert path not in self.there
        self.there[path] = text


def checkpoint(*trees: str, committed: int) -> MemoryFiles:
    files = MemoryFiles()
    for number, tree in enumerate(trees):
        files.there[f"c/offsets/{number}"] = f'v1\n{{"batchWatermarkMs":0,"conf":{{"x":"{number}"}}}}\n{tree}'
        if number < committed:
            files.there[f"c/commits/{number}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    files.there["c/offsets/.3.tmp"] = "half written"
    return files


@pytest.mark.parametrize("committed", [10, 11])  # the last batch was ended, or was not
def test_an_offset_is_set_as_a_batch_that_is_done(committed: int) -> None:
    trees = [f'{{"t": {{"0": {n}, "1": 0}}}}' for n in range(11)]
    files = checkpoint(*trees, committed=committed)
    set_offsets(files, "c/", {ZERO: 4, OTHER: 7})
    version, metadata, tree = files.there["c/offsets/11"].split("\n")
    assert (version, json.loads(metadata)["conf"]) == ("v1", {"x": "10"})  # what the query was set up with stays
    assert json.loads(tree) == {"t": {"0": 4, "1": 0}, "u": {"0": 7}}
    assert files.there["c/commits/11"] == 'v1\n{"nextBatchWatermarkMs":0}'


def test_offsets_of_a_connector_that_never_ran() -> None:
    files = MemoryFiles()
    set_offsets(files, "c", {ONE: 5})
    assert parsed(files.there["c/offsets/0"], "c")[1] == {"t": {"1": 5}}
    assert "c/commits/0" in files.there
    assert list(json.loads(files.there["c/metadata"])) == ["id"]  # Spark wants one where there are offsets
    before = files.there["c/metadata"]
    set_offsets(files, "c", {ONE: 6})
    assert files.there["c/metadata"] == before
    empty = MemoryFiles()
    reset_offsets(empty, "c")
    assert empty.there == {}


def test_a_reset_leaves_no_checkpoint() -> None:
    files = checkpoint('{"t": {"0": 9}}', committed=1)
    files.there["d/offsets/0"] = "another's"
    reset_offsets(files, "c")
    assert list(files.there) == ["d/offsets/0"]
    set_offsets(files, "c", {ZERO: 2})
    assert parsed(files.there["c/offsets/0"], "c")[1] == {"t": {"0": 2}}


def test_partitions_that_are_deleted_are_new_again() -> None:
    tree = {"t": {"0": 1, "1": 2}, "u": {"0": 3}}
    assert changed(tree, {ONE: None, OTHER: None, TopicPartition("v", 0): None}) == {"t": {"0": 1}}
    assert tree["u"] == {"0": 3}
    files = checkpoint('{"t": {"0": 9}}', committed=1)
    set_offsets(files, "c", {ZERO: None})
    assert not any(name.startswith("c/") for name in files.there)


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}\n-", ""])
def test_another_checkpoint_is_not_touched(text: str) -> None:
    files = MemoryFiles(c_offsets_0=text)
    with pytest.raises(ConnectError, match="not that of a SparkSink"):
        set_offsets(files, "c", {ZERO: 1})
    assert list(files.there) == ["c/offsets/0"]
