"""`kafka-leader-election`: has leaders elected, of one partition, of those in a file, or of all."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli import json_fields
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, run, run_with

ABOUT: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas."
)
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("admin.config", "The old name of --command-config.", "config file"),
    Option(
        "path-to-json-file",
        'The JSON file with the partitions: {"partitions": [{"topic": "foo", "partition": 1}]}. Not allowed with '
        "--all-topic-partitions or --topic.",
        "Path to JSON file",
    ),
    Option("topic", "Name of topic for which to perform an election.", "topic name"),
    Option(
        "partition", "Partition id for which to perform an election. REQUIRED if --topic is specified.", "partition id"
    ),
    Option("all-topic-partitions", "Perform election on all of the eligible topic partitions."),
    Option(
        "election-type",
        'REQUIRED: "preferred": only if the current leader is not the preferred one; "unclean": only if there is no '
        "leader, and records may be lost.",
        "election type",
    ),
)
_ONE_OF: Final = ("topic", "all-topic-partitions", "path-to-json-file")
_TYPES: Final = ("preferred", "unclean")
_TIMEOUT_MS: Final = 30_000


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected, read_properties
    from headwater.client.admin.replication import ElectionType

    kind = _checked_type(options)
    partitions = _partitions(options)
    properties = {"default.api.timeout.ms": str(_TIMEOUT_MS), "request.timeout.ms": str(_TIMEOUT_MS // 2)}
    for name in ("admin.config", "command-config"):
        if path := options.get(name):
            properties |= read_properties(path)
    try:
        with connected(options, properties) as admin:
            outcome = admin.elect_leaders(partitions, election_type=ElectionType[kind])
    except KafkaError as error:
        raise _failure(error) from None
    return _report(kind, outcome)


def _checked_type(options: Options) -> str:
    missing = [name for name in ("bootstrap-server", "election-type") if name not in options]
    if "bootstrap-server" in missing and any(name in options for name in ("broker-list", "zookeeper")):
        missing.remove("bootstrap-server")
    if missing:
        raise Stop(1, f"Missing required option(s): {', '.join(missing)}")
    kind = (options.get("election-type") or "").lower()
    if kind not in _TYPES:
        raise Stop(1, f"Cannot parse argument '{options.get('election-type')}' of option election-type")
    if sum(name in options for name in _ONE_OF) != 1:
        raise Stop(1, f"One and only one of the following options is required: {', '.join(_ONE_OF)}")
    if "topic" in options and "partition" not in options:
        raise Stop(1, "Missing required option(s): partition")
    if "partition" in options and "topic" not in options:
        raise Stop(1, "Option partition is only allowed if topic is used")
    return kind.upper()


def _partitions(options: Options) -> list[TopicPartition] | None:
    """None: all."""
    path = options.get("path-to-json-file")
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                return read_partitions(file.read())
        except (OSError, UnicodeDecodeError):
            raise Stop(1, f"Unable to read file {path}") from None
    topic, partition = options.get("topic"), options.number("partition", bits=32)
    return None if topic is None or partition is None else [TopicPartition(topic, partition)]


def read_partitions(text: str) -> list[TopicPartition]:
    try:
        document: Any = json.loads(text)
    except ValueError:
        raise Stop(1, "Replica election data is empty") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise Stop(1, 'Replica election data is missing "partitions" field')
    try:
        found = [
            TopicPartition(json_fields.text(each["topic"]), json_fields.number(each["partition"]))
            for each in document["partitions"]
        ]
    except (KeyError, TypeError):
        raise Stop(1, "Each of the partitions needs topic and partition") from None
    twice = sorted({each for each in found if found.count(each) > 1})
    if twice:
        raise Stop(1, f"Replica election data contains duplicate partitions: [{_names(twice)}]")
    return found


def _failure(error: KafkaError) -> Exception:
    from headwater.client.errors import BootstrapFailed

    said = {
        ErrorCode.REQUEST_TIMED_OUT: "Timeout waiting for election results",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to perform leader election",
    }.get(error.code)
    if said is None or isinstance(error, BootstrapFailed):
        return error
    sys.stdout.write(f"{said}\n")
    return Stop(1, said)


def _report(kind: str, outcome: dict[TopicPartition, KafkaError | None]) -> int:
    from headwater.cli.kafka.exits import told_text

    done = [partition for partition, error in outcome.items() if error is None]
    failed = {partition: error for partition, error in outcome.items() if error is not None}
    right = [each for each, error in failed.items() if error.code == ErrorCode.ELECTION_NOT_NEEDED]
    if done:
        sys.stdout.write(f"Successfully completed leader election ({kind}) for partitions {_names(done)}\n")
    if right:
        sys.stdout.write(f"Valid replica already elected for partitions {_names(right)}\n")
    for partition in right:
        del failed[partition]
    for partition in sorted(failed):
        text = told_text(failed[partition])
        sys.stdout.write(f"Error completing leader election ({kind}) for partition: {partition}: {text}\n")
    if failed:
        raise Stop(1, f"{len(failed)} replica(s) could not be elected")
    return 0


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
