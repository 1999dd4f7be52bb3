"""`kafka-transactions`: list and describe transactions, find and abort those that hang.

Kafka's tool has subcommands; so has this one, and a wrong one ends with exit code 1.
"""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import KAFKA_VERSION, Options, Stop

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from headwater.client.admin import Admin
    from headwater.client.admin.transactions import ActiveProducer

_MAX_TIMEOUT_MINUTES: Final = 15
_MINUTE_MS: Final = 60_000


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended

    return ended(lambda: _run(arguments), lambda: "")


def _run(arguments: Sequence[str]) -> int:
    typed = make_parser().parse_args(arguments)
    if typed.bootstrap_server is None and typed.broker_list is None and typed.zookeeper is None:
        raise Stop(1, "kafka-transactions: error: argument --bootstrap-server is required")
    from headwater.cli.kafka.connecting import connected

    given = {
        name.replace("_", "-"): [getattr(typed, name)]
        for name in ("bootstrap_server", "broker_list", "zookeeper", "command_config")
        if getattr(typed, name) is not None
    }
    with connected(Options(given)) as admin:
        _COMMANDS[typed.command](admin, typed)
    return 0


def make_parser() -> "ArgumentParser":
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise Stop(1, f"{self.format_usage()}{self.prog}: error: {message}")

    parser = Parser(
        "kafka-transactions",
        description="This tool is used to analyze the transactional state of producers in the cluster. It can be used "
        "to detect and recover from hanging transactions.",
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--version", action="version", version=KAFKA_VERSION)
    parser.add_argument("--command-config", metavar="FILE", help="property file containing configs of the client")
    parser.add_argument("--bootstrap-server", metavar="host:port", help="brokers to connect to")
    parser.add_argument("--broker-list", help=argparse.SUPPRESS)
    parser.add_argument("--zookeeper", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    listed = commands.add_parser("list", help="list transactions")
    listed.add_argument("--duration-filter", type=int, default=-1, help="only those that run longer, in milliseconds")
    listed.add_argument("--transactional-id-pattern", help="only ids that match this regular expression")
    described = commands.add_parser("describe", help="describe the state of an active transactional-id")
    described.add_argument("--transactional-id", required=True)
    producers = commands.add_parser("describe-producers", help="describe the active producers of a partition")
    producers.add_argument("--broker-id", type=int, help="broker whose replica is asked; the leader's by default")
    _partition_arguments(producers, required=True)
    aborted = commands.add_parser("abort", help="abort a hanging transaction")
    _partition_arguments(aborted, required=True)
    for name in ("start-offset", "producer-id", "producer-epoch", "coordinator-epoch"):
        aborted.add_argument(f"--{name}", type=int)
    hanging = commands.add_parser("find-hanging", help="find hanging transactions")
    hanging.add_argument("--broker-id", type=int, help="broker id to search for hanging transactions")
    hanging.add_argument("--max-transaction-timeout", type=int, default=_MAX_TIMEOUT_MINUTES, help="in minutes")
    _partition_arguments(hanging, required=False)
    ended = commands.add_parser("forceTerminateTransaction", help="end what a transactional id has open")
    ended.add_argument("--transactionalId", dest="transactional_id", required=True)
    return parser


def _partition_arguments(parser: "ArgumentParser", *, required: bool) -> None:
    parser.add_argument("--topic", required=required, help="topic name")
    parser.add_argument("--partition", type=int, required=required, help="partition number")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """As Kafka's tool prints it: each cell as wide as its column, and a tab behind it."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    return "".join(
        "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) + "\n" for row in cells
    )


def _list(admin: "Admin", typed: Any) -> None:
    found = admin.list_transactions(
        running_longer_than_ms=max(typed.duration_filter, -1), pattern=typed.transactional_id_pattern
    )
    columns = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    sys.stdout.write(table(columns, found))


def _describe(admin: "Admin", typed: Any) -> None:
    try:
        found = admin.describe_transaction(typed.transactional_id)
    except KafkaError as error:
        why = f"DescribeTransactions request for transactionalId `{typed.transactional_id}` failed because "
        why += "the ID could not be found" if error.code.name == "TRANSACTIONAL_ID_NOT_FOUND" else f"of {error}"
        raise Stop(
            1, f"Failed to describe transaction state of transactional-id `{typed.transactional_id}`: {why}."
        ) from None
    started = None if found.started_ms < 0 else found.started_ms
    columns = ["CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"]
    columns += ["TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"]
    row = [found.coordinator, found.transactional_id, found.producer_id, found.producer_epoch, found.state]
    row += [found.timeout_ms, started, None if started is None else _now_ms() - started]
    row.append(",".join(str(each) for each in found.partitions))
    sys.stdout.write(table(columns, [row]))


def _producers_of(admin: "Admin", partition: TopicPartition, broker_id: int | None = None) -> "list[ActiveProducer]":
    from headwater.cli.kafka.exits import message_of

    found: list[ActiveProducer] | KafkaError
    try:
        found = admin.describe_producers([partition], broker_id=broker_id)[partition]
    except KafkaError as error:  # there is no such broker
        found = error
    if isinstance(found, KafkaError):
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise Stop(1, f"Failed to describe producers for partition {partition} on {where}: {message_of(found)}")
    return found


def _describe_producers(admin: "Admin", typed: Any) -> None:
    columns = ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"]
    columns.append("CurrentTransactionStartOffset")
    rows = [
        [*each[:5], each.transaction_start_offset if each.transaction_start_offset >= 0 else None]
        for each in _producers_of(admin, TopicPartition(typed.topic, typed.partition), typed.broker_id)
    ]
    sys.stdout.write(table(columns, rows))


def _abort(admin: "Admin", typed: Any) -> None:
    partition = TopicPartition(typed.topic, typed.partition)
    numbers = (typed.producer_id, typed.producer_epoch, typed.coordinator_epoch)
    if typed.start_offset is not None:
        producers = _producers_of(admin, partition)
        found = next((each for each in producers if each.transaction_start_offset == typed.start_offset), None)
        if found is None:
            raise Stop(
                1,
                f"Could not find any open transactions starting at offset {typed.start_offset} on partition {partition}",
            )
        numbers = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
    elif None in numbers:
        raise Stop(
            1,
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with "
            "--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)",
        )
    producer_id, producer_epoch, coordinator_epoch = numbers
    try:  # -1: no marker of any coordinator was ever written, and no leader's epoch is below 0
        admin.abort_transaction(partition, producer_id, producer_epoch, max(coordinator_epoch, 0))
    except KafkaError as error:
        from headwater.cli.kafka.exits import message_of

        raise Stop(1, f"Failed to abort transaction on partition {partition}: {message_of(error)}") from None


class _Open(NamedTuple):
    partition: TopicPartition
    producer: "ActiveProducer"


def _find_hanging(admin: "Admin", typed: Any) -> None:
    if typed.topic is None and typed.broker_id is None:
        raise Stop(
            1, "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if typed.partition is not None and typed.topic is None:
        raise Stop(1, "The --partition argument requires --topic to be provided")
    now_ms = _now_ms()
    open_ones = _open_since(admin, typed, now_ms - typed.max_transaction_timeout * _MINUTE_MS)
    columns = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"]
    rows = [
        [
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.producer.transaction_start_offset,
            each.producer.last_timestamp_ms,
            (now_ms - each.producer.last_timestamp_ms) // _MINUTE_MS,
        ]
        for each in open_ones
        if not _is_known(admin, each)
    ]
    sys.stdout.write(table([*columns, "Duration(min)"], rows))


def _open_since(admin: "Admin", typed: Any, before_ms: int) -> list[_Open]:
    """Transactions whose producers have been silent since before then."""
    topics = admin.list_topics(internal=True) if typed.topic is None else [admin.describe_topic(typed.topic)]
    wanted = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if typed.partition in (None, each.partition) and typed.broker_id in (None, each.leader, *each.replicas)
    ]

    found = admin.describe_producers(wanted)
    return [
        _Open(partition, producer)
        for partition, producers in found.items()
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.transaction_start_offset >= 0 and producer.last_timestamp_ms < before_ms
    ]


def _is_known(admin: "Admin", candidate: _Open) -> bool:
    """Whether some coordinator has this partition in a transaction of that producer: then it will end it."""

    for listed in admin.list_transactions(producer_ids=[candidate.producer.producer_id]):
        try:
            if candidate.partition in admin.describe_transaction(listed.transactional_id).partitions:
                return True
        except KafkaError:
            continue
    return False


def _force_terminate(admin: "Admin", typed: Any) -> None:
    from headwater.client.outcomes import only

    only(admin.fence_producers([typed.transactional_id]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_COMMANDS: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
