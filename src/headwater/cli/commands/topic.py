"""`headwater topic`: list, create, describe, alter, delete, trim, offsets."""

from typing import TYPE_CHECKING, Any

import click

from headwater.cli.completion import topic_names
from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.options import Target, client_options, key_values
from headwater.cli.output import render_pairs, render_table

if TYPE_CHECKING:
    from headwater.base.errors import KafkaError
    from headwater.client.types import Topic

topic_argument = click.argument("name", metavar="TOPIC", shell_complete=topic_names)
topics_argument = click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)


@click.group(
    cls=LazyGroup,
    lazy={
        "offsets": LazyCommand(
            "headwater.cli.commands.topic_offsets", "offsets", "Show where partitions begin and end."
        ),
        "trim": LazyCommand("headwater.cli.commands.topic_offsets", "trim", "Drop the oldest records."),
    },
)
def topic() -> None:
    """List, create, describe, alter, delete and trim topics."""


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also those that brokers keep for themselves.")
@client_options
def list_topics(target: Target, internal: bool) -> None:
    """List topics with their partitions and replicas."""
    topics = target.admin.list_topics(internal=internal)
    rows = [[each.name, len(each.partitions), _replication(each)] for each in topics]
    value = [
        {
            "name": each.name,
            "partitions": len(each.partitions),
            "replicas": _replication(each),
            "internal": each.internal,
        }
        for each in topics
    ]
    target.emit(value, render_table(["NAME", "PARTITIONS", "REPLICAS"], rows))


@topic.command()
@topics_argument
@click.option("-p", "--partitions", type=click.IntRange(1), default=None, help="Default: the broker's num.partitions.")
@click.option("-r", "--replicas", type=click.IntRange(1), default=None, help="Default: the broker's setting.")
@click.option(
    "-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting; may come several times."
)
@click.option("--if-not-exists", is_flag=True, help="It is fine if the topic is there already.")
@click.option("--dry-run", is_flag=True, help="Only check whether the broker would do it.")
@client_options
def create(
    target: Target,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> int:
    """Create topics."""
    from headwater.base.errors import ErrorCode, KafkaError
    from headwater.client.types import NewTopic, topic_id_text

    settings: dict[str, str | None] = {**key_values(configs, "--config")}
    wanted = [NewTopic(name, partitions or -1, replicas or -1, settings) for name in dict.fromkeys(names)]
    outcome = target.admin.create_topics(wanted, validate_only=dry_run)
    value: list[dict[str, Any]] = []
    for name, result in outcome.items():
        if not isinstance(result, KafkaError):
            made = {"partitions": result.partitions, "replicas": result.replication_factor}
            status = "would be created" if dry_run else "created"
            value.append({"name": name, "status": status, **made, "topic_id": topic_id_text(result.topic_id)})
        elif if_not_exists and result.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            value.append({"name": name, "status": "exists"})
        else:
            value.append(_failure(name, result))
    return _report(target, value)


@topic.command()
@topics_argument
@client_options
def describe(target: Target, names: tuple[str, ...]) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics."""
    from headwater.client.outcomes import only
    from headwater.client.types import ConfigResource, ResourceType

    value, text = [], []
    for name in names:
        found = target.admin.describe_topic(name)
        entries = only(target.admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
        configs = {each.name: each.value for each in entries if not each.is_default}
        document = _description(target, found, configs)
        if "compact" in (configs.get("cleanup.policy") or ""):
            _add_dirty(target, document)
        value.append(document)
        text.append(_description_text(document))
    target.emit(value, "\n".join(text))


@topic.command()
@topic_argument
@click.option("-p", "--partitions", type=click.IntRange(1), help="The total number of partitions there shall be.")
@click.option("-s", "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Change a setting.")
@click.option("-u", "--unset", "unsets", metavar="KEY", multiple=True, help="Let a setting have its default again.")
@client_options
def alter(target: Target, name: str, partitions: int | None, sets: tuple[str, ...], unsets: tuple[str, ...]) -> int:
    """Add partitions, or change settings."""
    from headwater.client.outcomes import only
    from headwater.client.types import ConfigResource, ResourceType

    changes: dict[str, str | None] = {**key_values(sets, "--set"), **dict.fromkeys(unsets)}
    if not changes and partitions is None:
        raise click.UsageError("Nothing to change: give --partitions, --set or --unset.")
    target.admin.describe_topic(name)
    if changes:
        only(target.admin.alter_configs({ConfigResource(ResourceType.TOPIC, name): changes}))
    if partitions is not None:
        only(target.admin.create_partitions({name: partitions}))
    return _report(target, [{"name": name, "status": "altered"}])


@topic.command()
@topics_argument
@click.option("--if-exists", is_flag=True, help="It is fine if the topic is gone already.")
@client_options
def delete(target: Target, names: tuple[str, ...], if_exists: bool) -> int:
    """Delete topics and everything in them."""
    from headwater.base.errors import ErrorCode
    from headwater.client.errors import UnknownTopic

    outcome = target.admin.delete_topics(list(dict.fromkeys(names)))
    value: list[dict[str, Any]] = []
    for name, error in outcome.items():
        if error is None:
            value.append({"name": name, "status": "deleted"})
        elif error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            value.append(_failure(name, error))
        elif if_exists:
            value.append({"name": name, "status": "not there"})
        else:
            known = [each.name for each in target.admin.list_topics(internal=True)]
            value.append(_failure(name, UnknownTopic(name, known)))
    return _report(target, value)


def _replication(found: "Topic") -> int:
    return max((len(each.replicas) for each in found.partitions), default=0)


def _description(target: Target, found: "Topic", configs: dict[str, str | None]) -> dict[str, Any]:
    from headwater.base.errors import KafkaError
    from headwater.base.ids import TopicPartition
    from headwater.client.types import EARLIEST, LATEST, topic_id_text

    led = [TopicPartition(found.name, each.partition) for each in found.partitions if each.leader >= 0]
    first = target.admin.list_offsets(dict.fromkeys(led, EARLIEST))
    last = target.admin.list_offsets(dict.fromkeys(led, LATEST))

    def offset(answers: dict[TopicPartition, Any], partition: int) -> int | None:
        answer = answers.get(TopicPartition(found.name, partition))
        return None if answer is None or isinstance(answer, KafkaError) else answer.offset

    return {
        "name": found.name,
        "topic_id": topic_id_text(found.topic_id),
        "internal": found.internal,
        "replicas": _replication(found),
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "in_sync_replicas": each.in_sync_replicas,
                "offline_replicas": each.offline_replicas,
                "log_start_offset": offset(first, each.partition),
                "high_watermark": offset(last, each.partition),
            }
            for each in found.partitions
        ],
    }


def _add_dirty(target: Target, document: dict[str, Any]) -> None:
    """How much of each partition compaction has still to do, where its leader says so."""
    from headwater.base.ids import TopicPartition

    leaders = {each["partition"]: each["leader"] for each in document["partitions"]}
    wanted = [TopicPartition(document["name"], partition) for partition in leaders]
    dirty = {
        replica.partition: replica.dirty_bytes
        for directory in target.admin.describe_log_dirs(partitions=wanted)
        for replica in directory.replicas
        if leaders.get(replica.partition) == directory.broker and replica.dirty_bytes >= 0
    }
    for each in document["partitions"]:
        each["dirty_bytes"] = dirty.get(each["partition"])


def _description_text(document: dict[str, Any]) -> str:
    partitions = document["partitions"]
    pairs = [("name", document["name"]), ("id", document["topic_id"]), ("partitions", len(partitions))]
    pairs += [("replicas", document["replicas"])]
    pairs += [(f"config {key}", value) for key, value in document["configs"].items()]
    columns = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START-OFFSET", "HIGH-WATERMARK"]
    fields: tuple[str, ...] = (
        "partition",
        "leader",
        "leader_epoch",
        "replicas",
        "in_sync_replicas",
        "log_start_offset",
        "high_watermark",
    )
    if any("dirty_bytes" in each for each in partitions):
        columns.append("DIRTY-BYTES")
        fields = (*fields, "dirty_bytes")
    rows = [[each[field] for field in fields] for each in partitions]
    return render_pairs(pairs) + "\n" + render_table(columns, rows)


def _failure(name: str, error: "KafkaError") -> dict[str, Any]:
    from headwater.cli.explain import explain

    click.echo(explain(error), err=True)
    return {"name": name, "status": "failed", "error": error.code.name, "message": error.message}


def _report(target: Target, value: list[dict[str, Any]]) -> int:
    """What became of each thing; 1 if anything failed."""
    failed = any(each["status"] == "failed" for each in value)
    target.emit(value, render_table(["NAME", "STATUS"], [[each["name"], each["status"]] for each in value]))
    return 1 if failed else 0
