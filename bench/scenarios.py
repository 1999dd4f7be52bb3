"""All that is measured, in the order of the table."""

from bench.clients import client_scenarios
from bench.cluster import cluster_scenarios
from bench.columns import column_scenarios
from bench.connect import connect_scenarios
from bench.groups import group_scenarios
from bench.latency import latency_scenarios
from bench.quotas import quota_scenarios
from bench.recovery import recovery_scenarios
from bench.registry import registry_scenarios
from bench.report import LESS, MORE, Kind
from bench.rows import (
    CLIENT_LOADS,
    CODECS,
    Scenario,
    client_row,
    fetch_large,
    librdkafka,
    memory_idle,
    produce_large,
    produce_small,
    round_trip,
    small_beside_large,
    start_empty,
    start_full,
)
from bench.secured import secured_scenarios
from bench.spark import spark_scenarios
from bench.sql import sql_scenarios
from bench.sql_streams import sql_streams_scenarios
from bench.streams import streams_scenarios
from bench.streams_in_time import in_time_scenarios
from bench.streams_large_state import large_state_scenarios
from bench.streams_latency import latency_scenarios as streams_latency_scenarios
from bench.streams_on_cluster import on_cluster_scenarios
from bench.streams_state import state_scenarios as streams_state_scenarios
from bench.validation import validation_scenarios


def scenarios() -> list[Scenario]:
    started = "a Python that starts and does nothing"
    found = [
        Scenario((Kind("start-empty", "start to ready, empty log", "ms", LESS, started, 300),), start_empty, 4, False),
        Scenario(
            (Kind("start-1000-partitions", "start to ready, 1,000 partitions", "ms", LESS, started, 1000),),
            start_full,
            1,
            False,
        ),
        Scenario(
            (Kind("memory-idle", "memory, idle", "MB", LESS, "a Python that does nothing", 50),), memory_idle, 1, False
        ),
        Scenario(
            (
                Kind("round-trip-p50", "one connection, p50", "us", LESS, "a bare round trip", 1.6, of_limit=True),
                Kind("round-trip-p99", "one connection, p99", "us", LESS, "a bare round trip", 2, of_limit=True),
            ),
            round_trip,
            4,
        ),
        Scenario(
            (
                Kind(
                    "produce-small", "produce of one record, 50 connections", "requests/s", MORE, "a bare echo", 40_000
                ),
                Kind("produce-small-cpu", "broker CPU of each of these", "us", LESS, "a bare echo", 15),
            ),
            produce_small,
            3,
        ),
        Scenario(
            (Kind("produce-1mb", "produce, 1 MB batches", "MB/s", MORE, "loopback send", 0.40, of_limit=True),),
            produce_large,
            5,
        ),
        Scenario(
            (Kind("fetch-1mb", "fetch, 1 MB", "MB/s", MORE, "loopback sendfile", 0.75, of_limit=True),), fetch_large, 5
        ),
        Scenario(
            (Kind("beside-1mb-p99", "p99 of small requests beside 1 MB batches", "ms", LESS, "a bare echo", 3),),
            small_beside_large,
            3,
        ),
    ]
    for size, records in CLIENT_LOADS:
        for codec in CODECS:
            kinds = tuple(
                Kind(
                    client_row(what, size, codec),
                    f"librdkafka {what}, {size} B, {codec}",
                    "records/s",
                    MORE,
                    "the client",
                )
                for what in ("produce", "consume")
            )
            found.append(Scenario(kinds, librdkafka(size, records, codec), 2))
    of_the_broker = (
        found + latency_scenarios() + recovery_scenarios() + group_scenarios() + secured_scenarios() + quota_scenarios()
    )
    return (
        of_the_broker
        + client_scenarios()
        + registry_scenarios()
        + validation_scenarios()
        + column_scenarios()
        + streams_scenarios()
        + streams_latency_scenarios()
        + streams_state_scenarios()
        + large_state_scenarios()
        + in_time_scenarios()
        + on_cluster_scenarios()
        + sql_scenarios()
        + sql_streams_scenarios()
        + connect_scenarios()
        + spark_scenarios()
        + cluster_scenarios()
    )
