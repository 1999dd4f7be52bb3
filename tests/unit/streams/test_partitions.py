"""The same application over one partition and over four: the same sequences per key, the same final tables."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from headwater.streams import App, tumbling
from headwater.streams.engine.failures import StreamsError
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord


def counts(app: App) -> None:
    app.stream("in").group_by(lambda v: v[0]).count(store="table").to_stream().to("out")


def table_sums(app: App) -> None:
    table = app.table("in").group_by(lambda k, v: (v[0], len(v)), value="long")
    table.sum(store="table").to_stream().to("out")


def rekeyed_twice(app: App) -> None:
    once = app.stream("in").select_key(lambda v: v[0]).repartition()
    once.select_key(lambda k, v: k + k).to_table(store="table").to_stream().to("out")


def windows(app: App) -> None:
    app.stream("in").group_by_key().windowed_by(tumbling(50, grace=10_000)).count(store="table").to_stream().to("out")


@pytest.mark.parametrize("build", [counts, table_sums, rekeyed_twice, windows])
def test_partitions_change_nothing_per_key(build) -> None:
    def run(partitions: int) -> tuple[dict[object, list[object]], list[str]]:
        app = App("app", value="text")
        build(app)
        dice, sequences = random.Random(7), defaultdict(list)
        driver = app.test(partitions=partitions)
        for at in range(200):
            driver.pipe("in", dice.choice("abcdefgh"), dice.choice(["x", "yy", "zzz", "xx", "yyyy"]), at)
        for record in driver.read("out"):
            sequences[record.key].append((record.value, record.timestamp))
        rows = [repr(row) for number in range(partitions) for row in driver.store("table", number).all()]
        return sequences, sorted(rows)

    assert run(4) == run(1)


def test_a_partition_that_a_topic_does_not_have_is_refused_with_the_record() -> None:
    """Brokers refused the whole commit, and the slot processed it again, and again."""
    app = App("app", key="text", value="text")
    app.stream("in").to("out", partitioner=lambda topic, key, value, count: count if value == "x" else count - 1)
    (plan,) = app.topology().sub_topologies()
    settings = replace(app.settings(), partition_count=lambda _: 3, checks_partitions=True)
    task = Task(plan, 0, settings)
    for offset, value in enumerate((b"a", b"x")):
        task.add("in", [InputRecord("in", 0, offset, 5, b"k", value)])
    assert task.process_next() == 1
    assert [record.partition for record in task.collect().records] == [2]
    with pytest.raises(StreamsError, match=r"in-0 offset 1.*chose partition 3.*has 3 partitions"):
        task.process_next()
