"""`kafka-topics`: list, create, describe, alter and delete topics."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.admin.replication import Reassignment
    from headwater.client.types import Partition, Topic

ABOUT: Final = "This tool helps to create, delete, describe, or change a topic."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List all available topics."),
    Option("create", "Create a new topic."),
    Option("delete", "Delete a topic."),
    Option("alter", "Alter the number of partitions of a topic. Its configs are altered by kafka-configs."),
    Option("describe", "List details for the given topics."),
    Option(
        "topic", "The topic to create, alter, describe or delete; a regular expression, except with --create.", "topic"
    ),
    Option("topic-id", "The topic-id to describe.", "topic-id"),
    Option("config", "A topic configuration override for the topic being created.", "name=value"),
    Option("delete-config", "This option is no longer supported; use kafka-configs.", "name", old="deleteConfig"),
    Option(
        "partitions",
        "The number of partitions for the topic being created or altered.",
        "# of partitions",
        old="partition",
    ),
    Option("replication-factor", "The replication factor for each partition in the topic being created.", "factor"),
    Option(
        "replica-assignment", "A list of manual partition-to-broker assignments: 0:1,1:0 for two partitions.", "list"
    ),
    Option("under-replicated-partitions", "When describing, only show under-replicated partitions."),
    Option("unavailable-partitions", "When describing, only show partitions whose leader is not available."),
    Option("under-min-isr-partitions", "When describing, only partitions whose isr count is below the minimum."),
    Option("at-min-isr-partitions", "When describing, only partitions whose isr count is the minimum."),
    Option("topics-with-overrides", "When describing, only topics that have overridden configs."),
    Option("if-exists", "When altering, deleting or describing, only act if the topic exists."),
    Option("if-not-exists", "When creating, only act if the topic does not exist already."),
    Option("exclude-internal", "Exclude internal topics when listing or describing."),
    Option("partition-size-limit-per-response", "Taken and not needed here.", "number"),
)
_ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
_FILTERS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
    "topics-with-overrides",
)
_COLLIDES: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both.\n"
)
_ALTERED_ELSEWHERE: Final = (
    "WARNING: Altering topic configuration from this script is of the past. Going forward, please use kafka-configs.\n"
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    _check(options)
    action = next(name for name in _ACTIONS if name in options)
    try:
        with connected(options) as admin:
            _DO[action](admin, options)
    except KafkaError as error:
        from headwater.client.errors import BootstrapFailed

        if isinstance(error, BootstrapFailed):
            raise
        return _failed(error.message or error.code.name)
    except Usage as error:
        return _failed(str(error))
    return 0


def _failed(why: str) -> int:
    sys.stdout.write(f"Error while executing topic command : {why}\n")
    return 1


def _check(options: Options) -> None:
    if sum(name in options for name in _ACTIONS) != 1:
        raise Usage("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if not any(name in options for name in ("bootstrap-server", "broker-list", "zookeeper")):
        raise Stop(1, "--bootstrap-server must be specified")
    alters_configs = _alters_configs(options)
    if "alter" in options and "config" in options and not alters_configs:
        raise Usage(
            'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]" '
            "(To alter topic configurations, the kafka-configs tool can be used.)"
        )
    if not any(name in options for name in ("describe", "list")) and "topic-id" not in options:
        options.require("topic")
    if "alter" in options and "replica-assignment" not in options and not alters_configs:
        options.require("partitions")
    options.refuse_together("config", "list", "describe", "delete")
    if not alters_configs:
        options.refuse_together("delete-config", *_ACTIONS)
    options.refuse_together("partitions", "list", "describe", "delete")
    options.refuse_together("replication-factor", "list", "alter", "describe", "delete")
    options.refuse_together("replica-assignment", "list", "describe", "delete")
    if "create" in options:
        options.refuse_together("replica-assignment", "partitions", "replication-factor")
    for name in _FILTERS:
        options.refuse_together(name, "list", "create", "alter", "delete")
    for name in _FILTERS[:4]:
        options.refuse_together(name, "topics-with-overrides")
    options.refuse_together("if-exists", "list", "create")
    options.refuse_together("if-not-exists", "list", "alter", "describe", "delete")
    options.refuse_together("exclude-internal", "create", "alter", "delete")


def _alters_configs(options: Options) -> bool:
    """Together with --zookeeper, as in the days of both, --alter takes configs too."""
    given = "config" in options or "delete-config" in options
    return given and "alter" in options and "zookeeper" in options


def _chosen(admin: "Admin", options: Options, *, must_exist: bool) -> "list[Topic]":
    """The topics that --topic (a regular expression) or --topic-id names, by name; all without one."""
    from headwater.cli.kafka.topic_patterns import topic_pattern
    from headwater.client.types import topic_id_text

    topics = admin.list_topics(internal="exclude-internal" not in options)
    topic_id, pattern = options.get("topic-id"), options.get("topic")
    if topic_id is not None:
        found = [topic for topic in topics if topic_id_text(topic.topic_id) == topic_id]
        if not found and must_exist:
            raise Usage(f"TopicId '{topic_id}' does not exist as expected")
        return found
    if pattern is None:
        return topics
    wanted = topic_pattern(pattern)
    found = [topic for topic in topics if wanted.fullmatch(topic.name)]
    if not found and must_exist and "if-exists" not in options:
        raise Usage(f"Topic '{pattern}' does not exist as expected")
    return found


def _list(admin: "Admin", options: Options) -> None:
    found = _chosen(admin, options, must_exist=False)
    sys.stdout.write("".join(f"{topic.name}\n" for topic in found) or "\n")


def _create(admin: "Admin", options: Options) -> None:
    from headwater.cli.kafka.topic_creation import create, parse_creation

    name = options.get("topic") or ""
    parsed = parse_creation(options)
    refusal: KafkaError | Usage | None = None
    try:
        create(admin, name, parsed)
    except (KafkaError, Usage) as error:
        refusal = error
    code = refusal.code if isinstance(refusal, KafkaError) else None
    if ("." in name or "_" in name) and code != ErrorCode.INVALID_CONFIG:
        sys.stdout.write(_COLLIDES)  # Kafka's tool knows configs by itself, and says this only when they are right
    if refusal is None:
        sys.stdout.write(f"Created topic {name}.\n")
    elif code != ErrorCode.TOPIC_ALREADY_EXISTS or "if-not-exists" not in options:
        raise refusal


def _alter(admin: "Admin", options: Options) -> None:
    from headwater.cli.kafka.topic_creation import add_partitions, alter_configs

    for topic in _chosen(admin, options, must_exist=True):
        if _alters_configs(options):
            sys.stdout.write(_ALTERED_ELSEWHERE)
            alter_configs(admin, topic, options)
            sys.stdout.write(f"Updated config for topic {topic.name}.\n")
        if "partitions" in options or "replica-assignment" in options:
            add_partitions(admin, topic, options)


def _delete(admin: "Admin", options: Options) -> None:
    names = [topic.name for topic in _chosen(admin, options, must_exist=True)]
    for error in admin.delete_topics(names).values() if names else ():
        if error is not None:
            raise error


def _describe(admin: "Admin", options: Options) -> None:
    from headwater.client.outcomes import only
    from headwater.client.types import ConfigResource, ResourceType, topic_id_text

    topics = _chosen(admin, options, must_exist=True)
    moves = _moves(admin, topics)
    for topic in topics:
        described = [
            Described(each, moves.get(TopicPartition(topic.name, each.partition))) for each in topic.partitions
        ]
        entries = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic.name)]))
        overrides = [entry for entry in entries if not entry.is_default]
        minimum = next((int(each.value or 1) for each in entries if each.name == "min.insync.replicas"), 1)
        partitions_only = any(name in options for name in _FILTERS[:4])
        if not partitions_only and ("topics-with-overrides" not in options or overrides):
            replicas = described[0].replication_factor if described else 0
            configs = ",".join(f"{entry.name}={entry.value}" for entry in overrides)
            sys.stdout.write(
                f"Topic: {topic.name}\tTopicId: {topic_id_text(topic.topic_id)}"
                f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}\tConfigs: {configs}\n"
            )
        if "topics-with-overrides" not in options:
            sys.stdout.writelines(each.line() for each in described if _is_wanted(each, options, admin, minimum))


def _moves(admin: "Admin", topics: "list[Topic]") -> "dict[TopicPartition, Reassignment]":
    """Those under way; none for who may not see them, and with brokers that do not tell."""
    partitions = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    try:
        return admin.list_partition_reassignments(partitions) if partitions else {}
    except KafkaError as error:
        if error.code not in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
            raise
        return {}


def _is_wanted(described: "Described", options: Options, admin: "Admin", minimum: int) -> bool:
    """Without a filter every partition is; with several, one that any of them lets through."""
    in_sync, leader = len(described.partition.in_sync_replicas), described.partition.leader
    outcomes = {
        "under-replicated-partitions": in_sync < described.replication_factor,
        "unavailable-partitions": leader not in admin.session.view.brokers,
        "under-min-isr-partitions": leader < 0 or in_sync < minimum,
        "at-min-isr-partitions": in_sync == minimum,
    }
    given = [outcome for name, outcome in outcomes.items() if name in options]
    return not given or any(given)


class Described(NamedTuple):
    """A partition, and how it moves to other brokers, if it does."""

    partition: "Partition"
    move: "Reassignment | None"

    @property
    def replication_factor(self) -> int:
        """Without the replicas that a move adds, until it is over: they are not missing while they are copied."""
        move = self.move
        if move is None or not {*move.adding, *move.removing} & {*self.partition.replicas}:
            return len(self.partition.replicas)
        return len(move.replicas) - len(move.adding)

    def line(self) -> str:
        def ids(brokers: list[int]) -> str:
            return ",".join(str(each) for each in brokers)

        partition, move = self.partition, self.move
        leader = partition.leader if partition.leader >= 0 else "none"
        moving = (
            "" if move is None else f"\tAdding Replicas: {ids(move.adding)}\tRemoving Replicas: {ids(move.removing)}"
        )
        return (
            f"\tTopic: {partition.topic}\tPartition: {partition.partition}\tLeader: {leader}"
            f"\tReplicas: {ids(partition.replicas)}\tIsr: {ids(partition.in_sync_replicas)}{moving}"
            "\tElr: \tLastKnownElr: \n"
        )


_DO: Final[dict[str, "Callable[[Admin, Options], None]"]] = {
    "list": _list,
    "create": _create,
    "alter": _alter,
    "describe": _describe,
    "delete": _delete,
}
