"""`headwater stream run --master`: an application in slots of a SparkSession that this process opens."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.stream_queries import told_of

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


def run_on_spark(app: "App", master: str, stopping: threading.Event, settings: dict[str, Any]) -> None:
    """Until it is to stop, or the application ends; raises what ended it."""
    from headwater.base.extras import SPARK, STREAMS, require_extra

    require_extra("streams,spark", "An application on Spark", [*STREAMS, *SPARK[:2]])
    from headwater.spark import session
    from headwater.spark.sessions import master_with_retries, slot_settings

    spark = session(app.name, master=master_with_retries(master), **slot_settings(master, frames=bool(app.feeds)))
    try:
        running = app.run(spark, **settings)
        used = len(running.status()["slots"])
        line = f"ready application={app.name} tasks={running.task_count} slots={used}"
        if running.queries is not None:
            line += told_of(running.queries, Path(settings["state_dir"]) / app.name)
        click.echo(line)
        while not stopping.wait(0.1) and running.running:
            pass
        running.stop()
    finally:
        spark.stop()
