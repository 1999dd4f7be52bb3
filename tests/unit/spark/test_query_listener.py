"""When the groups of a query are told the end of a batch, and what of it."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.spark.options import SourceOptions, parse_source_options
from headwater.spark.query_listener import GroupOffsetCommitter, add_query_listener, newer_offsets, sources_of

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Told:
    """The groups, and a committer of one query with the sources that it is given."""

    def __init__(self, *sources: SourceOptions | None, quiet_s: float = 0.01) -> None:
        self.groups: list[tuple[str | None, dict[TopicPartition, int]]] = []
        self.heard = threading.Event()
        self.committer = GroupOffsetCommitter(lambda _query: sources, self._tell, quiet_s)
        self.committer.query_started("query", "run")

    def _tell(self, options: SourceOptions, ends: Mapping[TopicPartition, int]) -> None:
        self.groups.append((options.group_id, dict(ends)))
        self.heard.set()

    def progress(self, *ends: str | None) -> None:
        self.committer.query_progressed("run", lambda: ends)

    def terminated(self) -> None:
        self.committer.query_terminated("run")


def source(**options: Any) -> SourceOptions:
    return parse_source_options({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", **options}, streaming=True)


def test_a_group_is_told_when_its_query_is_quiet() -> None:
    told = Told(source())
    told.progress('{"t": {"0": 5}}')
    assert told.heard.wait(60)
    assert told.groups == [("headwater-spark-t", {FIRST: 5})]


def test_of_batches_in_a_row_the_last_is_told_and_the_end_of_a_query_waits_for_nothing() -> None:
    told = Told(source(), quiet_s=3600)
    for offset in (5, 6, 7):
        told.progress(f'{{"t": {{"0": {offset}}}}}')
    assert told.groups == []
    told.terminated()
    assert told.groups == [("headwater-spark-t", {FIRST: 7})]
    told.terminated()
    told.progress('{"t": {"0": 8}}')
    assert len(told.groups) == 1, "the query is gone"


def test_sources_of_other_formats_and_those_without_a_group_are_passed_over() -> None:
    told = Told(None, source(commitOffsets="false"), source(**{"kafka.group.id": "mine"}), quiet_s=3600)
    told.progress("7", '{"t": {"0": 5}}', '{"t": {"1": 6}}')
    told.terminated()
    assert told.groups == [("mine", {SECOND: 6})]


def test_a_plan_that_is_not_the_one_that_reads_is_left_to_the_reader() -> None:
    told = Told(source(), source(), quiet_s=3600)
    told.progress('{"t": {"0": 5}}')
    told.terminated()
    assert told.groups == []


class Leaf:
    """Of a plan, as the JVM shows it."""

    def __init__(self, group: str = "", *, streaming: bool = True, name: str = "headwater") -> None:
        self._group, self._streaming, self._name = group, streaming, name

    def isStreaming(self) -> bool:
        return self._streaming

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: "StreamingRelationV2" if self._streaming else "LocalRelation")

    def sourceName(self) -> str:
        return self._name

    def extraOptions(self) -> Any:
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.group.id": self._group}
        return SimpleNamespace(asCaseSensitiveMap=lambda: given)


def groups_of(*leaves: Leaf) -> list[str | None]:
    found = SimpleNamespace(size=lambda: len(leaves), apply=leaves.__getitem__)
    plan = SimpleNamespace(collectLeaves=lambda: found)
    query = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: SimpleNamespace(analyzedPlan=lambda: plan)))
    spark: Any = SimpleNamespace(streams=SimpleNamespace(get=lambda _query: query))
    return [None if each is None else each.group_id for each in sources_of(spark, "query")]


def test_a_table_that_a_stream_is_joined_with_is_no_source() -> None:
    """Its query had more leaves than sources, and its groups were not told before the next trigger."""
    table, first, second = Leaf(streaming=False), Leaf("a"), Leaf("b")
    assert groups_of(table, first) == ["a"]
    assert groups_of(first, table, Leaf(name="rate"), second) == ["a", None, "b"]


def test_a_frame_that_stands_in_the_plan_twice_is_one_source() -> None:
    first, second = Leaf("a"), Leaf("b")
    assert groups_of(first, second, first) == ["a", "b"]
    assert groups_of(first, Leaf("a")) == ["a", "a"]


def test_a_batch_without_an_end_says_nothing() -> None:
    told = Told(source(), quiet_s=3600)
    told.progress(None)
    told.terminated()
    assert told.groups == []


def test_a_timer_that_outlives_its_session_says_nothing_and_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """After `spark.stop()` there is no JVM to ask: the thread of the timer ended with a traceback."""
    told = Told(source(), quiet_s=3600)

    def gone() -> list[str]:
        raise ConnectionRefusedError("the JVM is gone")

    told.committer.query_progressed("run", gone)
    told.terminated()
    assert told.groups == []
    assert capsys.readouterr() == ("", "")


def test_a_group_that_cannot_be_told_fails_no_query(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(source(), quiet_s=3600)
    told.progress("no JSON")
    told.terminated()
    assert "only from trigger to trigger" in capsys.readouterr().err


def test_a_session_without_listeners_is_made_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """`register` failed where PySpark has other names for them."""

    class Streams:
        def addListener(self, listener: object) -> None:
            raise AttributeError("PythonStreamingQueryListenerWrapper")

    class Session:
        def sessionUUID(self) -> str:
            return "of another PySpark"

    spark: Any = SimpleNamespace(
        _jsparkSession=Session(), sparkContext=SimpleNamespace(applicationId="app"), streams=Streams()
    )
    add_query_listener(spark)
    assert "PythonStreamingQueryListenerWrapper" in capsys.readouterr().err


def test_a_group_is_never_set_back() -> None:
    assert newer_offsets({FIRST: 5, SECOND: 5}, {FIRST: 6}) == {SECOND: 5}
    assert newer_offsets({FIRST: 5}, {FIRST: 5}) == {}
    assert newer_offsets({FIRST: 0}, {}) == {FIRST: 0}
