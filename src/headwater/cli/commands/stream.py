"""`headwater stream`: run applications of headwater.streams, look at them, begin them anew."""

from pathlib import Path
from typing import Any

import click

from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.options import Target, output_option, stream_options
from headwater.cli.output import emit
from headwater.cli.stream_files import load_app, use_brokers

_COMMANDS = "headwater.cli.commands"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


_LAZY = {
    "list": LazyCommand(f"{_COMMANDS}.stream_status", "list_applications", "List the applications of this machine."),
    "status": LazyCommand(
        f"{_COMMANDS}.stream_status",
        "status",
        "Show how an application runs: slots, tasks, positions, lag, restores, what went wrong.",
    ),
    "reprocess": LazyCommand(
        f"{_COMMANDS}.stream_reprocess",
        "reprocess",
        "Run a new version beside the former one, compare their outputs, and switch.",
    ),
    "test": LazyCommand(f"{_COMMANDS}.stream_test", "test", "Run an application over cases, without a broker."),
    "dlq": LazyCommand(
        f"{_COMMANDS}.stream_dlq", "dlq", "Look through dead letters, and give their records another try."
    ),
    "serve": LazyCommand(
        f"{_COMMANDS}.stream_serve",
        "serve",
        "Answer queries over HTTP from the state of an application on this machine.",
    ),
}


@click.group(cls=LazyGroup, lazy=_LAZY)
def stream() -> None:
    """Run applications of headwater.streams, look at them, begin them anew."""


@stream.command()
@click.argument("path", metavar="FILE", type=_FILE)
@click.option("--svg", is_flag=True, help="As a picture, on stdout.")
@output_option
def describe(path: Path, output: str, svg: bool) -> None:
    """Show the topology of an application, in Kafka Streams' text form, or as a picture."""
    app = load_app(path)
    if svg:
        click.echo(app.describe_svg(), nl=False)
        return
    emit(output, {"application": app.name, "topology": app.describe()}, app.describe())


@stream.command()
@click.argument("path", metavar="FILE", type=_FILE)
@click.option("--state-dir", type=click.Path(file_okay=False), default="headwater-state", show_default=True)
@click.option("--commit-interval-ms", type=click.IntRange(min=1), default=100, show_default=True)
@click.option(
    "--at-least-once", is_flag=True, help="Without transactions: records may be processed twice after a crash."
)
@click.option("-b", "--bootstrap-server", metavar="HOST:PORT", help="In place of the application's own.")
@click.option(
    "--queries", type=click.IntRange(0, 65535), metavar="PORT", help="Answer queries over HTTP there; 0: any port."
)
@click.option(
    "--allow-state-loss", is_flag=True, help="Start also if the topology has changed so that kept state is lost."
)
@click.option("--queries-host", default="127.0.0.1", show_default=True, metavar="HOST")
@click.option("--master", metavar="URL", help="Run in slots that Spark supplies: local[3], spark://host:7077.")
@click.option(
    "--slots", type=click.IntRange(min=1), help="With --master: how many; one per core but one, if not given."
)
@click.option(
    "--standby-replicas",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --master: how many slots of other machines keep a copy of each task's state.",
)
@click.option(
    "--lease", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True, help="Seconds, of a slot."
)
def run(
    path: Path,
    state_dir: str,
    commit_interval_ms: int,
    at_least_once: bool,
    bootstrap_server: str | None,
    queries: int | None,
    queries_host: str,
    master: str | None,
    slots: int | None,
    lease: float,
    allow_state_loss: bool,
    standby_replicas: int,
) -> None:
    """Run an application in this process or on Spark, until SIGTERM or Ctrl-C. Prints a line beginning with `ready`
    when it processes.

    The secret that queries need is what HEADWATER_QUERY_TOKEN holds; if it is not set, one is made and written to a
    file that only its owner reads, which the line names.

    If the same application runs elsewhere, this one takes over, and the other ends.
    """
    import os
    import signal
    import threading

    from headwater.cli.stream_on_spark import run_on_spark
    from headwater.cli.stream_queries import told_of
    from headwater.streams.query.client import TOKEN_VARIABLE

    if master is None and (slots is not None or standby_replicas):
        raise click.UsageError("--slots and --standby-replicas need --master.")
    app = load_app(path)
    use_brokers(app, bootstrap_server)
    stopping = threading.Event()

    def stop(*_: Any) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        guarantee = "at_least_once" if at_least_once else "exactly_once_v2"
        if master is not None:
            settings = {"slots": slots, "lease": lease, "state_dir": state_dir}
            settings |= {"commit_interval_ms": commit_interval_ms, "processing_guarantee": guarantee}
            settings |= {"allow_state_loss": allow_state_loss, "num_standby_replicas": standby_replicas}
            token = os.environ.get(TOKEN_VARIABLE)
            settings |= {"queries": queries, "queries_host": queries_host, "queries_token": token}
            run_on_spark(app, master, stopping, settings)
            return
        running = app.run_here(
            state_dir=state_dir,
            commit_interval_ms=commit_interval_ms,
            processing_guarantee=guarantee,
            queries=queries,
            queries_host=queries_host,
            allow_state_loss=allow_state_loss,
            queries_token=os.environ.get(TOKEN_VARIABLE),
        )
        line = f"ready application={app.name} tasks={running.task_count}"
        if running.queries is not None:
            line += told_of(running.queries, Path(state_dir) / app.name)
        click.echo(line)
        while not stopping.wait(0.1) and running.running:
            pass
        running.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@stream.command()
@click.argument("path", metavar="FILE", type=_FILE)
@click.option("--to-latest", is_flag=True, help="Begin with records that come from now on, not with the first.")
@click.option("--force", is_flag=True, help="Remove members that are left in the group.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@stream_options
def reset(target: Target, path: Path, to_latest: bool, force: bool, dry_run: bool) -> int:
    """Let an application begin anew: its inputs from their first record, without what it has counted so far.

    Its internal topics are deleted, its output topics stay. State on disk is wiped at its next start.
    """
    from headwater.base.errors import UserError
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.cli.resets import Earliest, Latest, plan_reset
    from headwater.cli.stream_reset import (
        delete_topics,
        inputs_of,
        internal_topics,
        members_of,
        told,
        topics_of_users,
    )
    from headwater.client.outcomes import all_or_raise
    from headwater.streams.topics.patterns import own_topics

    app = load_app(path)
    if app.names_brokers and target.connect.bootstrap_server is None and target.connect.profile is None:
        target.connect = target.connect._replace(bootstrap_server=app.brokers)
    admin = target.admin
    if members_of(admin, app.name):
        if not force:
            raise UserError(
                f"The application {app.name} runs",
                "its group has members",
                "Stop it first; --force removes members that a crash has left behind",
            )
        if not dry_run:
            admin.remove_members(app.name)
    there = {topic.name for topic in admin.list_topics()}
    inputs = inputs_of(app, there)
    partitions = parse_topic_partitions(admin, inputs) if inputs else []
    plan = plan_reset(admin, app.name, partitions, Latest() if to_latest else Earliest())
    groups = [each.group_id for each in admin.list_groups()]
    own = own_topics(app.topology(), app.name)
    doomed = internal_topics(app.name, there, users=topics_of_users(app), own=own, groups=groups)
    if not dry_run:
        if plan.offsets:
            all_or_raise(admin.alter_group_offsets(app.name, plan.offsets))
        delete_topics(admin, doomed)
    offsets = [{"topic": p.topic, "partition": p.partition, "offset": at} for p, at in sorted(plan.offsets.items())]
    target.emit({"offsets": offsets, "deleted": doomed}, told(plan.offsets, doomed, dry_run=dry_run))
    return 0
