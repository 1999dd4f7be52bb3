"""The rows of the issue are all there, each once, with its target."""

from pathlib import Path

from bench.report import BEGIN, END, Figure
from bench.scenarios import scenarios
from bench.spark import batch_figures

KINDS = {kind.row: kind for scenario in scenarios() for kind in scenario.kinds}
BROKER = {
    row: kind for row, kind in KINDS.items() if row.partition("-")[0] not in ("client", "codec", "connect", "spark")
}


def test_targets():
    assert {row: kind.target for row, kind in BROKER.items() if kind.target is not None} == {
        "produce-1mb": 0.40,
        "fetch-1mb": 0.75,
        "produce-small": 40_000,
        "produce-small-cpu": 15,
        "round-trip-p50": 1.6,
        "round-trip-p99": 2,
        "beside-1mb-p99": 3,
        "start-empty": 300,
        "start-1000-partitions": 1000,
        "memory-idle": 50,
        "load-10000-groups": 2000,
        "rights-10000": 1,
        "transactions-1000": 0.9,
        "transactions-1000-own": 0.9,
        "failover-kill": 2000,
        "failover-stop": 200,
        "registry-start": 500,
        "registry-start-10000": 2000,
        "columns-avro-read": 10,
        "streams-count": 3.0,
        "streams-windowed": 3.0,
        "streams-table": 3.0,
        "streams-stream": 1.0,
        "streams-function": 1.0,
        **{f"streams-latency-{commit}ms-{share}": 1.0 for commit in (100, 20) for share in ("p50", "p99")},
        "streams-restart": 1_000,
        "streams-restore": 3_000,
        "streams-query-p99": 2,
        "streams-10m-memory": 1_000,
        "streams-10m-restart": 1_000,
        "streams-10m-restore": 3_000,
        "streams-10m-takeover": 3_000,
        "streams-punctuator-p99": 50,
        "streams-lost-slot": 3_000,
        "streams-lost-slot-others": 200,
        "streams-new-slot": 15_000,
        "streams-lost-executor": 3_000,
        "streams-lost-executor-others": 200,
        "streams-new-worker": 15_000,
        "streams-lost-driver": 15_000,
        "streams-driver-first": 150,
        "streams-driver-1000": 2,
    }
    of_limit = {row for row, kind in BROKER.items() if kind.of_limit}
    transactions = {"transactions-1000", "transactions-1000-own"}
    streams = {f"streams-{what}" for what in ("count", "windowed", "table", "stream", "function")}
    streams |= {row for row in BROKER if row.startswith("streams-latency-")}
    columns = {row for row in BROKER if row.startswith("columns-")}
    assert (
        of_limit == {"produce-1mb", "fetch-1mb", "round-trip-p50", "round-trip-p99"} | transactions | streams | columns
    )


def test_librdkafka_rows():
    named = {row for row in KINDS if row.startswith("librdkafka-")}
    assert named == {
        f"librdkafka-{what}-{size}b-{codec}"
        for what in ("produce", "consume")
        for size in (100, 1000)
        for codec in ("none", "lz4")
    }


def test_client_rows():
    """Arrow is held against confluent-kafka, three times as fast at 100 bytes; plain calls against the others."""
    named = {row: kind.target for row, kind in KINDS.items() if row.startswith("client-")}
    assert named == {
        f"client-{what}-{way}-{size}b": target
        for what in ("produce", "consume")
        for way, size, target in (("plain", 100, 1), ("arrow", 100, 3), ("plain", 1000, 1), ("arrow", 1000, None))
    }
    assert all(KINDS[row].of_limit for row in named)


def test_group_rows():
    assert {"join-1", "join-10", "join-50", "commits"} <= set(KINDS)


def test_rows_about_lateness_and_clusters():
    assert {"end-to-end-p50", "end-to-end-p99", "compaction-p99", "recovery-1gb"} <= set(KINDS)
    assert {row for row in KINDS if row.startswith(("cluster-", "failover-"))} == {
        "cluster-acks-all",
        "cluster-acks-1",
        "cluster-p99-acks-all",
        "cluster-p99-acks-1",
        "cluster-end-to-end-p50",
        "cluster-end-to-end-p99",
        "cluster-memory",
        "cluster-recovery-1000",
        "failover-kill",
        "failover-stop",
    }


def test_a_micro_batch_stands_beside_the_connector_and_a_source_that_does_nothing():
    found = {"p50 headwater": 66.0, "p99 headwater": 90.0, "p50 kafka": 50.0, "p99 kafka": 80.0, "p50 floor": 60.0}
    figures = batch_figures(found | {"p99 floor": 85.0})
    assert figures == {
        "spark-batch-p50": Figure(66.0, 50.0, "1.10 of a Python source that does nothing"),
        "spark-batch-p99": Figure(90.0, 80.0),
        "spark-batch-floor-p50": Figure(60.0, 50.0),
    }
    (scenario,) = [each for each in scenarios() if "spark-batch-p50" in {kind.row for kind in each.kinds}]
    assert {kind.row for kind in scenario.kinds} == set(figures)


def test_no_row_is_measured_twice():
    assert len(KINDS) == sum(len(scenario.kinds) for scenario in scenarios())


def test_the_docs_have_a_place_for_the_table():
    text = (Path(__file__).parents[3] / "docs/PERFORMANCE.md").read_text()
    assert text.index(BEGIN) < text.index(END)
