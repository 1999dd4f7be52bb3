"""`headwater status`: what runs here, or what a cluster elsewhere looks like."""

from pathlib import Path
from typing import Any, Final

import click

from headwater.cli.options import Target, client_options, data_dir_option
from headwater.cli.output import duration_text, render_table, size_text
from headwater.cli.paths import default_data_dir

_PATIENCE_S: Final = 2.0


@click.command()
@data_dir_option
@client_options
def status(target: Target, data_dir: str | None) -> None:
    """Show what runs on this machine, where, and how it is doing.

    With --bootstrap-server: the brokers of that cluster.
    """
    if target.connect.bootstrap_server or target.connect.profile or target.connect.command_config:
        documents = cluster_documents(target)
    else:
        from headwater.cli.local_documents import local_documents
        from headwater.cli.state import read_state

        directory = (Path(data_dir).expanduser() if data_dir else default_data_dir()).absolute()
        state = read_state(directory)
        if state is None:
            value = {"brokers": [], "data_dir": str(directory)}
            target.emit(value, f"Nothing is running on {directory}\nStart it with `headwater up -d`\n")
            return
        documents = local_documents(state, asking=True)
    target.emit(documents, _table(documents))


def cluster_documents(target: Target) -> dict[str, Any]:
    """A cluster through the eyes of a client."""
    from headwater.base.errors import KafkaError

    target.hurry(round(_PATIENCE_S * 1000))
    info = target.admin.describe_cluster()
    topics = target.admin.list_topics(internal=True)
    brokers: list[dict[str, Any]] = []
    for broker in info.brokers:
        led = sum(1 for topic in topics for each in topic.partitions if each.leader == broker.id)
        document: dict[str, Any] = {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
        document |= {"controller": broker.id == info.controller_id, "leads": led, "ready": True, "log_dirs": []}
        try:
            dirs = target.admin.describe_log_dirs([broker.id])
            document |= {"log_dirs": [each.path for each in dirs], "log_bytes": sum(each.size_bytes for each in dirs)}
        except KafkaError as error:
            document |= {"ready": False, "error": str(error)}
        brokers.append(document)
    return {
        "brokers": brokers,
        "cluster_id": info.cluster_id,
        "controller_id": info.controller_id,
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
    }


def _table(documents: dict[str, Any]) -> str:
    brokers = documents["brokers"]
    columns = ["BROKER", "ADDRESS", "READY", "PID", "UPTIME", "RESTARTS", "TOPICS", "PARTITIONS", "LOG", "CONNECTIONS"]
    rows = [
        [
            each["id"],
            f"{each['host']}:{each['port']}",
            each["ready"],
            each.get("pid"),
            duration_text(each["uptime_s"]) if "uptime_s" in each else None,
            each.get("restarts"),
            each.get("topics", documents.get("topics")),
            each.get("partitions", documents.get("partitions")),
            size_text(each.get("log_bytes", -1)),
            each.get("connections"),
        ]
        for each in brokers
    ]
    places = "".join(f"\nlog of broker {each['id']}: {each['log_file']}" for each in brokers if each.get("log_file"))
    places += "".join(
        f"\nmetrics of broker {each['id']}: {each['metrics_url']}" for each in brokers if each.get("metrics_url")
    )
    if registry := documents.get("registry"):
        state = "" if registry["ready"] else ", not ready"
        places += f"\nregistry: {registry['url']} (pid {registry['pid']}{state})"
    for name in ("sql", "connect"):
        if server := documents.get(name):
            state = "" if server["ready"] else ", not ready"
            places += f"\n{name}: {server['url']} (pid {server['pid']}{state})"
    if zookeeper := documents.get("zookeeper"):
        places += f"\nzookeeper: {zookeeper['host']}:{zookeeper['port']} (pid {zookeeper['pid']})"
    where = f"\ndata: {documents['data_dir']}{places}\n" if "data_dir" in documents else ""
    return render_table(columns, rows) + where
