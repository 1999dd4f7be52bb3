"""`headwater cluster`: what the cluster is, whether it is well, its transactions; what lies where is in `reassign`."""

from typing import TYPE_CHECKING, Any, Final

import click

from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.options import Target, client_options
from headwater.cli.output import render_pairs, render_table

if TYPE_CHECKING:
    from headwater.client.admin import Admin


_PATIENCE_MS: Final = 5_000


@click.group(
    cls=LazyGroup,
    lazy={
        "reassign": LazyCommand("headwater.cli.commands.reassign", "reassign", "Move partitions between brokers."),
        "elect": LazyCommand("headwater.cli.commands.elect", "elect", "Let leaders of partitions be elected."),
    },
)
def cluster() -> None:
    """Look at the cluster as a whole: brokers, health, transactions; move partitions, elect leaders."""


@cluster.command()
@client_options
def info(target: Target) -> None:
    """Show the cluster's id, its brokers and how much they hold."""
    found = target.admin.describe_cluster()
    topics = target.admin.list_topics(internal=True)
    value = {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id,
        "brokers": [each._asdict() for each in found.brokers],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
    }
    pairs = [(name, value[name]) for name in ("cluster_id", "controller", "topics", "partitions")]
    rows = [[each.id, each.host, each.port, each.rack] for each in found.brokers]
    target.emit(value, render_pairs(pairs) + "\n" + render_table(["BROKER", "HOST", "PORT", "RACK"], rows))


@cluster.command()
@client_options
def health(target: Target) -> int:
    """Check that brokers answer, partitions are led and in sync, and directories work. Exit code 1 if something is
    wrong.
    """
    target.hurry(_PATIENCE_MS)
    value = [*_brokers(target.admin), *_partitions(target.admin)]
    rows = [["ok" if each["ok"] else "WRONG", each["check"], each["detail"]] for each in value]
    target.emit(value, render_table(["", "CHECK", "DETAIL"], rows))
    return 0 if all(each["ok"] for each in value) else 1


def _check(name: str, bad: list[str], good: str) -> dict[str, Any]:
    return {"check": name, "ok": not bad, "detail": "; ".join(bad) if bad else good}


def _brokers(admin: "Admin") -> list[dict[str, Any]]:
    """Whether each broker of the metadata answers, and its log directories work."""
    from headwater.base.errors import ErrorCode, KafkaError

    found = admin.describe_cluster()
    silent, broken, directories = [], [], 0
    for broker in found.brokers:
        try:
            for each in admin.describe_log_dirs([broker.id]):
                directories += 1
                if each.error != ErrorCode.NONE:
                    broken.append(f"{each.path} of broker {broker.id}: {each.error.name}")
        except KafkaError as error:
            silent.append(f"broker {broker.id}: {error.message or error.code.name}")
    controller = [] if found.controller_id in [each.id for each in found.brokers] else ["there is no controller"]
    return [
        _check("brokers answer", silent, f"{len(found.brokers)} of {len(found.brokers)}"),
        _check("controller", controller, f"broker {found.controller_id}"),
        _check("log directories", broken, f"{directories} work"),
    ]


def _partitions(admin: "Admin") -> list[dict[str, Any]]:
    partitions = [each for topic in admin.list_topics(internal=True) for each in topic.partitions]

    def those(wrong: list[Any]) -> list[str]:
        names = [f"{each.topic}-{each.partition}" for each in wrong]
        return [*names[:10], *([f"and {len(names) - 10} more"] if len(names) > 10 else [])]

    leaderless = [each for each in partitions if each.leader < 0]
    behind = [each for each in partitions if len(each.in_sync_replicas) < len(each.replicas)]
    offline = [each for each in partitions if each.offline_replicas]
    return [
        _check("partitions have leaders", those(leaderless), f"{len(partitions)} of {len(partitions)}"),
        _check("replicas in sync", those(behind), "all"),
        _check("replicas on line", those(offline), "all"),
    ]


@cluster.command()
@click.option("--id", "transactional_id", metavar="ID", help="All about one transactional id.")
@click.option("-s", "--state", "states", multiple=True, help="Only those in this state: Ongoing, PrepareCommit, ...")
@click.option("--longer-than", metavar="TIME", help="Only those open for longer: 90s, 15m.")
@click.option("--producers", metavar="TOPIC:PARTITION", help="Who writes to a partition, and since which offset.")
@client_options
def transactions(
    target: Target,
    transactional_id: str | None,
    states: tuple[str, ...],
    longer_than: str | None,
    producers: str | None,
) -> None:
    """List transactions, look at one, or at the producers of a partition."""
    if transactional_id is not None:
        _describe(target, transactional_id)
    elif producers is not None:
        _producers(target, producers)
    else:
        from headwater.cli.offset_option import parse_duration_ms

        duration_ms = -1 if longer_than is None else parse_duration_ms(longer_than)
        value = [
            each._asdict() for each in target.admin.list_transactions(states=states, running_longer_than_ms=duration_ms)
        ]
        columns = ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
        target.emit(value, render_table(columns, [list(row.values()) for row in value]))


def _describe(target: Target, transactional_id: str) -> None:
    found = target.admin.describe_transaction(transactional_id)
    value: dict[str, Any] = {**found._asdict(), "partitions": [str(each) for each in found.partitions]}
    if value["started_ms"] < 0:
        value["started_ms"] = None
    target.emit(value, render_pairs(list(value.items())))


def _producers(target: Target, spec: str) -> None:
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.client.outcomes import all_or_raise

    found = all_or_raise(target.admin.describe_producers(parse_topic_partitions(target.admin, [spec])))
    value = [
        {"topic": partition.topic, "partition": partition.partition, **producer._asdict()}
        for partition, each in found.items()
        for producer in each
    ]
    columns = ["TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "COORDINATOR-EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP"]
    columns.append("TRANSACTION-START")
    target.emit(value, render_table(columns, [list(row.values()) for row in value]))
