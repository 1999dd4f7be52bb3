"""Partition counts of a run: asked for by time, never per record, and never a record's fault."""

from collections.abc import Iterable, Mapping

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.streams import App, tumbling
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.slot.partition_counts import GONE_TIMES, REFRESH_S, PartitionCounts
from headwater.streams.topics.plan import partitioned_outputs


class Cluster:
    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked = 0
        self.away = False
        self.unsaid: set[str] = set()  # brokers do not say whether these are there

    def __call__(self, topics: Iterable[str]) -> Mapping[str, int]:
        self.asked += 1
        if self.away:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody answers")
        return {topic: self.counts[topic] for topic in topics if topic in self.counts}

    def gone(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if topic not in self.counts and topic not in self.unsaid]


def _windowed() -> App:
    app = App("app", key="text", value="text", on_error="skip")
    app.stream("in").group_by_key().windowed_by(tumbling("10s")).count().to_stream().to("out")
    return app


def _fed(app: App, counts: PartitionCounts, number: int) -> Task:
    from headwater.streams.stores.memory import MemoryState

    task = Task(app.topology().sub_topologies()[0], 0, app.settings(partition_count=counts), MemoryState())
    task.add("in", [InputRecord("in", 0, offset, offset, b"k", b"v") for offset in range(number)])
    return task


def test_an_output_is_asked_for_before_the_first_record_and_not_per_record() -> None:
    cluster = Cluster(**{"in": 1, "out": 3})
    app = _windowed()
    counts = PartitionCounts(cluster, {"in": 1}, partitioned_outputs(app.topology()))
    counts.refresh(0.0)
    cluster.away = True
    task = _fed(app, counts, 50)
    assert task.process() == 50
    assert len(task.collect().records) == 50
    assert cluster.asked == 1


def test_an_outage_is_no_processing_error_of_the_record() -> None:
    cluster = Cluster()
    cluster.away = True
    task = _fed(_windowed(), PartitionCounts(cluster, {"in": 1}), 1)
    with pytest.raises(ClusterFailure):
        task.process()
    assert task.collect().dropped == {}


def test_an_output_that_is_not_there_is_an_error_for_people_whatever_the_policy() -> None:
    task = _fed(_windowed(), PartitionCounts(Cluster(), {"in": 1}), 1)
    with pytest.raises(ClusterFailure, match="The topic out is not there") as caught:
        task.process()
    assert isinstance(caught.value.cause, UserError)


def test_an_input_that_grows_ends_the_run_and_an_output_that_grows_is_used() -> None:
    cluster = Cluster(**{"in": 2, "out": 3})
    counts = PartitionCounts(cluster, {"in": 2}, ["out"])
    counts.refresh(0.0)
    cluster.counts["out"] = 4
    counts.refresh(REFRESH_S - 1)
    assert counts("out") == 3
    counts.refresh(REFRESH_S)
    assert counts("out") == 4
    cluster.counts["in"] = 5
    with pytest.raises(UserError, match="The topic in has 5 partitions now, and had 2 when the application started"):
        counts.refresh(2 * REFRESH_S)


def test_what_was_known_holds_while_the_cluster_is_away_or_a_broker_is_behind() -> None:
    cluster = Cluster(**{"in": 2, "out": 3})
    counts = PartitionCounts(cluster, {"in": 2}, ["out"])
    counts.refresh(0.0)
    cluster.away = True
    counts.refresh(REFRESH_S)
    cluster.away = False
    cluster.counts = {"in": 1, "out": 2}
    counts.refresh(2 * REFRESH_S)
    assert (counts("in"), counts("out")) == (2, 3)


def test_an_input_that_is_deleted_ends_the_run_when_it_was_said_often_enough() -> None:
    """The run idled for ever, and said nothing. A broker that has just started may not know all topics, though."""
    cluster = Cluster(**{"in": 2, "side": 1})
    counts = PartitionCounts(cluster, {"in": 2, "side": 1}, (), cluster.gone)
    looks = iter(range(1_000))

    def look(times: int) -> None:
        for _ in range(times):
            counts.refresh(next(looks) * REFRESH_S)

    look(1)
    del cluster.counts["in"]
    look(GONE_TIMES - 1)
    cluster.counts["in"] = 2
    look(1)
    del cluster.counts["in"]
    look(GONE_TIMES - 1)
    cluster.away = True
    look(GONE_TIMES)
    cluster.away, cluster.unsaid = False, {"in"}
    look(GONE_TIMES)
    cluster.unsaid = set()
    look(GONE_TIMES - 1)
    with pytest.raises(UserError, match="The topic in, which the application reads, is not there any more"):
        look(1)


def test_a_run_goes_on_without_a_topic_that_matched_its_pattern() -> None:
    cluster = Cluster()
    counts = PartitionCounts(cluster, {"orders-1": 2}, (), cluster.gone, {"orders-1"})
    for number in range(10):
        counts.refresh(number * REFRESH_S)
    assert counts("orders-1") == 2
