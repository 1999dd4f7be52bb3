"""Every metric of Kafka Connect that workers have, by its group, and how Prometheus sees it.

Names are those that the example rules of the JMX exporter for Kafka Connect give: `kafka_connect_`, the group without
`-metrics` (a worker's: `worker`, `worker-rebalance`), the name, with underscores. What is text there (a status, a
class, a version) is a label here, of a metric whose value is 1: `status`, or `info` for what stays the same while a
task runs. A test holds this table against Apache's own.
"""

from typing import Final, NamedTuple

from headwater.connect.metrics.error_counts import ERROR_COUNTS

SOURCE: Final = "source"
SINK: Final = "sink"


class Group(NamedTuple):
    prefix: str  # in Prometheus
    labels: tuple[str, ...]
    gauges: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # labels of <prefix>_status and <prefix>_info


WORKER: Final = "connect-worker-metrics"
CONNECTOR_TASKS: Final = "connect-worker-metrics/connector"  # the same group, with a label
REBALANCE: Final = "connect-worker-rebalance-metrics"
CONNECTOR: Final = "connector-metrics"
TASK: Final = "connector-task-metrics"
SOURCE_TASK: Final = "source-task-metrics"
SINK_TASK: Final = "sink-task-metrics"
ERRORS: Final = "task-error-metrics"
TRANSFORM: Final = "connector-transform-metrics"
PREDICATE: Final = "connector-predicate-metrics"

_TASK_LABELS: Final = ("connector", "task")
GROUPS: Final = {
    WORKER: Group(
        "kafka_connect_worker",
        (),
        gauges=(
            "connector-count",
            "task-count",
            "connector-startup-success-percentage",
            "connector-startup-failure-percentage",
            "task-startup-success-percentage",
            "task-startup-failure-percentage",
        ),
        counters=(
            "connector-startup-attempts-total",
            "connector-startup-success-total",
            "connector-startup-failure-total",
            "task-startup-attempts-total",
            "task-startup-success-total",
            "task-startup-failure-total",
        ),
    ),
    CONNECTOR_TASKS: Group(
        "kafka_connect_worker",
        ("connector",),
        gauges=(
            "connector-total-task-count",
            "connector-running-task-count",
            "connector-paused-task-count",
            "connector-failed-task-count",
            "connector-unassigned-task-count",
            "connector-restarting-task-count",
        ),
    ),
    REBALANCE: Group(
        "kafka_connect_worker_rebalance",
        (),
        gauges=(
            "epoch",
            "rebalancing",
            "rebalance-avg-time-ms",
            "rebalance-max-time-ms",
            "time-since-last-rebalance-ms",
        ),
        counters=("completed-rebalances-total",),
        texts=("leader-name", "connect-protocol"),
    ),
    CONNECTOR: Group(
        "kafka_connect_connector",
        ("connector",),
        texts=("status", "connector-class", "connector-type", "connector-version"),
    ),
    TASK: Group(
        "kafka_connect_connector_task",
        _TASK_LABELS,
        gauges=(
            "running-ratio",
            "pause-ratio",
            "batch-size-avg",
            "batch-size-max",
            "offset-commit-avg-time-ms",
            "offset-commit-max-time-ms",
            "offset-commit-success-percentage",
            "offset-commit-failure-percentage",
        ),
        texts=(
            "status",
            "connector-class",
            "connector-type",
            "connector-version",
            "task-class",
            "task-version",
            "key-converter-class",
            "key-converter-version",
            "value-converter-class",
            "value-converter-version",
            "header-converter-class",
            "header-converter-version",
        ),
    ),
    SOURCE_TASK: Group(
        "kafka_connect_source_task",
        _TASK_LABELS,
        gauges=(
            "source-record-poll-rate",
            "source-record-write-rate",
            "source-record-active-count",
            "source-record-active-count-avg",
            "source-record-active-count-max",
            "poll-batch-avg-time-ms",
            "poll-batch-max-time-ms",
            "transaction-size-avg",
            "transaction-size-max",
            "transaction-size-min",
        ),
        counters=("source-record-poll-total", "source-record-write-total"),
    ),
    SINK_TASK: Group(
        "kafka_connect_sink_task",
        _TASK_LABELS,
        gauges=(
            "sink-record-read-rate",
            "sink-record-send-rate",
            "sink-record-active-count",
            "sink-record-active-count-avg",
            "sink-record-active-count-max",
            "put-batch-avg-time-ms",
            "put-batch-max-time-ms",
            "partition-count",
            "offset-commit-completion-rate",
            "offset-commit-seq-no",
        ),
        counters=("sink-record-read-total", "sink-record-send-total", "offset-commit-completion-total"),
    ),
    ERRORS: Group(
        "kafka_connect_task_error",
        _TASK_LABELS,
        gauges=("last-error-timestamp",),
        counters=ERROR_COUNTS,
    ),
    TRANSFORM: Group(
        "kafka_connect_connector_transform",
        (*_TASK_LABELS, "transform"),
        texts=("transform-class", "transform-version"),
    ),
    PREDICATE: Group(
        "kafka_connect_connector_predicate",
        (*_TASK_LABELS, "predicate"),
        texts=("predicate-class", "predicate-version"),
    ),
}
LEFT_OUT: Final = {
    (CONNECTOR_TASKS, "connector-destroyed-task-count"): "a task that is deleted is in no list of the worker any more",
    (SINK_TASK, "sink-record-lag-max"): "Apache's workers have the name and no value; the lag is that of the group connect-<name>",
    (SINK_TASK, "offset-commit-skip-rate"): "a commit is waited for: none is answered too late to count",
    (SINK_TASK, "offset-commit-skip-total"): "a commit is waited for: none is answered too late to count",
}  # fmt: skip
RESTARTS: Final = "headwater_connect_task_restarts_total"  # ours: a failed task is started again by its worker


def prometheus_name(group: str, name: str) -> str:
    return f"{GROUPS[group].prefix}_{name.replace('-', '_')}"
