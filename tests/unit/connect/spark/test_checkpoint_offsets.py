"""The offsets of a SparkSink: what its checkpoint says after they were set."""

import json

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.spark.checkpoint import begin_at, changed, parsed, recover, reset_offsets, set_offsets
from headwater.connect.errors import ConnectError

ZERO, ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Killed(Exception):
    pass


class MemoryFiles:
    """A file system. `steps_left`: changes until its process is killed."""

    def __init__(self, **texts: str) -> None:
        self.there = {name.replace("_", "/"): text for name, text in texts.items()}
        self.steps_left: int | None = None

    def names_in(self, path: str) -> list[str]:
        below = (name.removeprefix(f"{path}/") for name in self.there if name.startswith(f"{path}/"))
        return list(dict.fromkeys(name.partition("/")[0] for name in below))

    def read_text(self, path: str) -> str:
        return self.there[path]

    def delete(self, path: str) -> None:
        """File by file, as on a local disk: a kill may leave a half."""
        for name in [each for each in self.there if each == path or each.startswith(f"{path}/")]:
            self._step()
            del self.there[name]

    def write_text(self, path: str, text: str, aside: str) -> None:
        assert aside.rpartition("/")[2].startswith(".")
        assert path not in self.there
        self._step()
        self.there[path] = text

    def _step(self) -> None:
        if self.steps_left == 0:
            raise Killed
        if self.steps_left is not None:
            self.steps_left -= 1


def never(query: str, batch: int) -> bool:
    raise AssertionError(f"nobody asks for {query} {batch}: it is committed")


def checkpoint(*trees: str, committed: int) -> MemoryFiles:
    files = MemoryFiles()
    for number, tree in enumerate(trees):
        files.there[f"c/offsets/{number}"] = f'v1\n{{"batchWatermarkMs":0,"conf":{{"x":"{number}"}}}}\n{tree}'
        if number < committed:
            files.there[f"c/commits/{number}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    files.there["c/offsets/.3.tmp"] = "half written"
    files.there["c/metadata"] = '{"id":"q"}'
    return files


@pytest.mark.parametrize("committed", [10, 11])  # the last batch was ended, or was not
def test_an_offset_is_set_as_a_batch_that_is_done(committed: int) -> None:
    trees = [f'{{"t": {{"0": {n}, "1": 0}}}}' for n in range(11)]
    files = checkpoint(*trees, committed=committed)
    set_offsets(files, "c/", {ZERO: 4, OTHER: 7}, lambda _query, _batch: True)
    version, metadata, tree = files.there["c/offsets/11"].split("\n")
    assert (version, json.loads(metadata)["conf"]) == ("v1", {"x": "10"})  # what the query was set up with stays
    assert json.loads(tree) == {"t": {"0": 4, "1": 0}, "u": {"0": 7}}
    assert files.there["c/commits/11"] == 'v1\n{"nextBatchWatermarkMs":0}'


def test_offsets_of_a_connector_that_never_ran() -> None:
    files = MemoryFiles()
    set_offsets(files, "c", {ONE: 5}, never)
    assert parsed(files.there["c/offsets/0"], "c")[1] == {"t": {"1": 5}}
    assert "c/commits/0" in files.there
    assert list(json.loads(files.there["c/metadata"])) == ["id"]  # Spark wants one where there are offsets
    before = files.there["c/metadata"]
    set_offsets(files, "c", {ONE: 6}, never)
    assert files.there["c/metadata"] == before
    empty = MemoryFiles()
    reset_offsets(empty, "c")
    assert empty.there == {}


def test_a_reset_leaves_no_checkpoint() -> None:
    files = checkpoint('{"t": {"0": 9}}', committed=1)
    files.there["d/offsets/0"] = "another's"
    reset_offsets(files, "c")
    assert list(files.there) == ["d/offsets/0"]
    set_offsets(files, "c", {ZERO: 2}, never)
    assert parsed(files.there["c/offsets/0"], "c")[1] == {"t": {"0": 2}}


def test_partitions_that_are_deleted_are_new_again() -> None:
    tree = {"t": {"0": 1, "1": 2}, "u": {"0": 3}}
    assert changed(tree, {ONE: None, OTHER: None, TopicPartition("v", 0): None}) == {"t": {"0": 1}}
    assert tree["u"] == {"0": 3}
    files = checkpoint('{"t": {"0": 9}}', committed=1)
    set_offsets(files, "c", {ZERO: None}, never)
    assert not any(name.startswith("c/") for name in files.there)


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}\n-", ""])
def test_another_checkpoint_is_not_touched(text: str) -> None:
    files = MemoryFiles(c_offsets_0=text)
    with pytest.raises(ConnectError, match="not that of a SparkSink"):
        set_offsets(files, "c", {ZERO: 1}, never)
    assert list(files.there) == ["c/offsets/0"]


# Kills


@pytest.mark.parametrize("written", [True, False])
def test_a_batch_that_was_begun_and_not_ended_loses_no_record_of_other_partitions(written: bool) -> None:
    """Partition 1 is not named: it goes on behind the batch if the target has it, and where it began if not."""
    asked = []

    def is_written(query: str, batch: int) -> bool:
        asked.append((query, batch))
        return written

    files = checkpoint('{"t": {"0": 5, "1": 5}}', '{"t": {"0": 9, "1": 8}, "u": {"0": 2}}', committed=1)
    set_offsets(files, "c", {ZERO: 7}, is_written)
    assert asked == [("q", 1)]
    expected = {"t": {"0": 7, "1": 8}, "u": {"0": 2}} if written else {"t": {"0": 7, "1": 5}}
    assert parsed(files.there["c/offsets/2"], "c")[1] == expected
    assert "c/commits/2" in files.there


def test_the_first_batch_that_was_begun_and_not_ended_leaves_other_partitions_new() -> None:
    files = checkpoint('{"t": {"0": 5, "1": 5}}', committed=0)
    set_offsets(files, "c", {ZERO: 3}, lambda _query, _batch: False)
    assert parsed(files.there["c/offsets/1"], "c")[1] == {"t": {"0": 3}}
    other = checkpoint('{"t": {"0": 5}}', committed=0)
    del other.there["c/metadata"]  # without a name the query has left no mark
    set_offsets(other, "c", {ONE: 3}, never)
    assert parsed(other.there["c/offsets/1"], "c")[1] == {"t": {"1": 3}}


def test_a_query_that_begins_at_the_end_does_so_though_its_first_batch_dies_without_a_mark() -> None:
    """Partition 1, which the call does not name, was read from its earliest record."""
    files = MemoryFiles()
    begin_at(files, "c/", lambda: {ZERO: 70, ONE: 80})
    files.there["c/offsets/1"] = 'v1\n{}\n{"t": {"0": 75, "1": 85}}'  # the first batch of records, begun and not ended
    begin_at(files, "c", lambda: {ZERO: 90, ONE: 90})  # the worker that goes on
    set_offsets(files, "c", {ZERO: 3}, lambda _query, _batch: False)
    assert parsed(files.there["c/offsets/2"], "c")[1] == {"t": {"0": 3, "1": 80}}
    assert parsed(files.there["c/offsets/0"], "c")[1] == {"t": {"0": 70, "1": 80}}  # where Spark begins the batch again


def test_a_query_of_topics_that_are_not_there_yet_has_nothing_to_begin_at() -> None:
    files = MemoryFiles()
    begin_at(files, "c", dict)
    assert files.there == {}


def test_a_worker_that_is_killed_while_it_says_where_a_query_begins_has_read_nothing() -> None:
    for steps in range(3):
        files = MemoryFiles()
        files.steps_left = steps
        with pytest.raises(Killed):
            begin_at(files, "c", lambda: {ZERO: 5})
        files.steps_left = None
        recover(files, "c")
        begin_at(files, "c", lambda: {ZERO: 6})
        found = goes_on(files)
        assert found is not None
        assert found[1] == {"t": {"0": 6}}


def goes_on(files: MemoryFiles) -> tuple[str, object] | None:
    """What Spark does with the checkpoint: which query goes on where, all but its last batch being done; None: it
    begins anew.
    """
    offsets, commits = (
        sorted(int(each) for each in files.names_in(f"c/{kind}") if each.isdigit()) for kind in ("offsets", "commits")
    )
    if not offsets:
        assert commits == []
        assert "c/metadata" not in files.there  # or its marks would be taken for those of the new one
        return None
    assert offsets[-1] == commits[-1]  # or Spark runs a batch that was only set
    return json.loads(files.there["c/metadata"])["id"], parsed(files.there[f"c/offsets/{offsets[-1]}"], "c")[1]


@pytest.mark.parametrize("again", [False, True])  # the same call once more, or the query begins
def test_a_worker_that_is_killed_while_offsets_are_set_has_set_them_or_not(again: bool) -> None:
    before, after = ("q", {"t": {"0": 9}}), ("q", {"t": {"0": 4}})
    seen = []
    for steps in range(20):
        files = checkpoint('{"t": {"0": 5}}', '{"t": {"0": 9}}', committed=2)
        files.steps_left = steps
        try:
            set_offsets(files, "c", {ZERO: 4}, never)
            break
        except Killed:
            files.steps_left = None
        if again:
            set_offsets(files, "c", {ZERO: 4}, never)
        else:
            recover(files, "c")
        seen.append(goes_on(files))
    assert seen == ([after] * len(seen) if again else [before] * len(seen))
    assert len(seen) == 2
    assert goes_on(files) == after


@pytest.mark.parametrize("again", [False, True])
def test_a_worker_that_is_killed_while_offsets_are_deleted_has_deleted_them_or_not(again: bool) -> None:
    seen = []
    for steps in range(30):
        files = checkpoint('{"t": {"0": 5}}', '{"t": {"0": 9}}', committed=2)
        files.there["c/sources/0/0"] = "x"
        files.steps_left = steps
        try:
            reset_offsets(files, "c")
            break
        except Killed:
            files.steps_left = None
        if again:
            reset_offsets(files, "c")
        else:
            recover(files, "c")
        seen.append(goes_on(files))
    assert seen[0] == (None if again else ("q", {"t": {"0": 9}}))
    assert set(map(str, seen[1:])) == {"None"}
    assert files.there == {}


def test_a_checkpoint_that_is_as_spark_left_it_is_not_changed() -> None:
    for committed in (1, 2):
        files = checkpoint('{"t": {"0": 5}}', '{"t": {"0": 9}}', committed=committed)
        before = dict(files.there)
        recover(files, "c/")
        assert files.there == before
    recover(MemoryFiles(), "c")
