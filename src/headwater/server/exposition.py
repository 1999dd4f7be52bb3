"""The broker's figures for others: Prometheus text, and the JSON that `headwater status` reads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headwater._version import VERSION
from headwater.broker.registry import APIS
from headwater.server.exposition_security import audit_lines, login_lines, quota_lines

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.server.node import Node

_SHOWN_BUCKETS: Final = range(13, 35)  # 8 us to 17 s, each twice the one before


def prometheus_text(node: "Node") -> str:
    return "\n".join(_lines(node)) + "\n"


def status(node: "Node") -> dict[str, Any]:
    """What `headwater status` shows of one broker."""
    broker = node.broker
    apis = {
        APIS[key].name: {"requests": m.count, "mean_us": round(m.total_ns / m.count / 1000, 1)}
        for key, m in sorted(broker.metrics.apis.items())
        if m.count
    }
    return {
        "id": broker.broker_id,
        "cluster_id": broker.image.cluster_id,
        "version": VERSION,
        "uptime_ms": broker.clock.monotonic_ms() - broker.metrics.started_ms,
        "connections": node.connection_count(),
        "topics": len(broker.image.topics),
        "partitions": len(broker.partitions),
        "log_bytes": sum(p.log.size_bytes() for p in broker.partitions.values()),
        "bytes_in": sum(p.bytes_in for p in broker.partitions.values()),
        "bytes_out": sum(p.bytes_out for p in broker.partitions.values()),
        "records_in": sum(p.records_in for p in broker.partitions.values()),
        "stalls": node.loop.stall_count,
        "stall_longest_ms": node.loop.stall_longest_ms,
        "apis": apis,
    }


def _lines(node: "Node") -> Iterator[str]:
    broker = node.broker
    metrics = broker.metrics
    yield from _single("headwater_uptime_seconds", "gauge", (broker.clock.monotonic_ms() - metrics.started_ms) / 1000)
    yield from _single("headwater_connections", "gauge", node.connection_count())
    yield from _single("headwater_connections_total", "counter", metrics.connections_total)
    yield from _single("headwater_connections_refused_total", "counter", metrics.connections_refused)
    yield from _single("headwater_requests_refused_total", "counter", metrics.requests_refused)
    yield from _single("headwater_loop_stalls_total", "counter", node.loop.stall_count)
    yield from _single("headwater_loop_stalled_seconds_total", "counter", node.loop.stalled_ms / 1000)
    yield from _single("headwater_request_memory_bytes", "gauge", node.server.buffers.allocated_bytes)
    yield from _single("headwater_fetch_sessions", "gauge", len(broker.fetch_sessions))
    yield from _single("headwater_topics", "gauge", len(broker.image.topics))
    yield from _single("headwater_partitions", "gauge", len(broker.partitions))
    if node.membership is not None:
        yield from cluster_lines(broker, node.membership.store.broker_epoch, node.membership.store.is_connected)
    yield from directory_lines(broker)
    yield from login_lines(node.server.securities, node.server.handshakes)
    yield from quota_lines(broker.quotas, broker.clock.monotonic_ms())
    yield from audit_lines(broker.audit)
    yield from _cleaner(node)
    yield from _latencies(node)
    yield from _topics(node)
    yield "# TYPE headwater_log_size_bytes gauge"
    for p in broker.partitions.values():
        yield f'headwater_log_size_bytes{{topic="{p.topic}",partition="{p.index}"}} {p.log.size_bytes()}'
    yield "# TYPE headwater_log_end_offset gauge"
    for p in broker.partitions.values():
        yield f'headwater_log_end_offset{{topic="{p.topic}",partition="{p.index}"}} {p.log.log_end_offset}'


def cluster_lines(broker: "Broker", broker_epoch: int, is_connected: bool) -> Iterator[str]:
    """What only a broker of a cluster has. `is_connected`: it is registered in ZooKeeper and follows what changes
    there.
    """
    assert broker.replicas is not None
    controller, keeper = broker.metrics.controller, broker.replicas.keeper
    leaders = sum(partition.is_leader for partition in broker.partitions.values())
    yield from _single("headwater_zookeeper_connected", "gauge", int(is_connected))
    yield from _single("headwater_broker_epoch", "gauge", broker_epoch)
    yield from _single("headwater_controller_active", "gauge", int(controller.is_active))
    yield from _single("headwater_controller_offline_partitions", "gauge", controller.offline_partitions)
    yield from _single("headwater_controller_unclean_elections_total", "counter", controller.unclean_elections)
    yield from _single("headwater_leader_partitions", "gauge", leaders)
    yield from _single("headwater_follower_partitions", "gauge", len(broker.partitions) - leaders)
    yield from _single("headwater_under_replicated_partitions", "gauge", len(keeper.under_replicated()))
    yield from _single("headwater_under_min_in_sync_partitions", "gauge", len(keeper.under_min_in_sync()))
    yield from _single("headwater_in_sync_shrinks_total", "counter", keeper.shrink_count)
    yield from _single("headwater_in_sync_expands_total", "counter", keeper.expand_count)


def directory_lines(broker: "Broker") -> Iterator[str]:
    logs = broker.logs
    failed = logs.failed_directories()
    yield from _single("headwater_log_directories_offline", "gauge", len(failed))
    yield "# TYPE headwater_log_directory_online gauge"
    for directory in logs.directories:
        path = directory.path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'headwater_log_directory_online{{path="{path}"}} {int(directory.path not in failed)}'
    yield from _single("headwater_log_moves", "gauge", len(logs.moves.under_way))
    yield from _single("headwater_log_moves_failed_total", "counter", logs.moves.failures)


def _cleaner(node: "Node") -> Iterator[str]:
    cleaner = node.broker.logs.cleaner
    counts = cleaner.counts
    yield from _single("headwater_cleaner_running", "gauge", cleaner.busy_count)
    yield from _single("headwater_cleaner_uncleanable_partitions", "gauge", cleaner.uncleanable_count)
    yield from _single("headwater_cleaner_cleanings_total", "counter", counts.cleanings)
    yield from _single("headwater_cleaner_failures_total", "counter", counts.failures)
    yield from _single("headwater_cleaner_read_bytes_total", "counter", counts.bytes_read)
    yield from _single("headwater_cleaner_written_bytes_total", "counter", counts.bytes_written)
    yield from _single("headwater_cleaner_read_records_total", "counter", counts.records_read)
    yield from _single("headwater_cleaner_kept_records_total", "counter", counts.records_kept)
    now_ms = node.broker.clock.now_ms()
    yield "# TYPE headwater_log_dirty_bytes gauge"
    for p in node.broker.partitions.values():
        if p.log.config.cleanup_compact:
            dirty_bytes = cleaner.dirtiness(p.log, now_ms).dirty_bytes
            yield f'headwater_log_dirty_bytes{{topic="{p.topic}",partition="{p.index}"}} {dirty_bytes}'


def _single(name: str, kind: str, value: float) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


def _latencies(node: "Node") -> Iterator[str]:
    name = "headwater_request_seconds"
    yield f"# TYPE {name} histogram"
    for key, m in sorted(node.broker.metrics.apis.items()):
        api = APIS[key].name
        for bits in _SHOWN_BUCKETS:
            yield f'{name}_bucket{{api="{api}",le="{(1 << bits) / 1e9:.9f}"}} {sum(m.buckets[: bits + 1])}'
        yield f'{name}_bucket{{api="{api}",le="+Inf"}} {m.count}'
        yield f'{name}_sum{{api="{api}"}} {m.total_ns / 1e9:.9f}'
        yield f'{name}_count{{api="{api}"}} {m.count}'


def _topics(node: "Node") -> Iterator[str]:
    """Sums per topic. Topic names are legal label values as they are: no quote, no backslash, no line break."""
    sums: dict[str, list[int]] = {}
    for p in node.broker.partitions.values():
        row = sums.setdefault(p.topic, [0, 0, 0])
        row[0] += p.bytes_in
        row[1] += p.bytes_out
        row[2] += p.records_in
    for column, name in enumerate(("bytes_in", "bytes_out", "records_in")):
        yield f"# TYPE headwater_topic_{name}_total counter"
        for topic, row in sums.items():
            yield f'headwater_topic_{name}_total{{topic="{topic}"}} {row[column]}'
