"""The process that runs the demo: broker, registry, visitors, three queries of Spark, a Streams application, and the
picture of them.

It ends when its standard input closes, after `--seconds`, or when a query fails: first the visitors, then, when the
queries have read all there is, the queries, Spark and the broker. When another process of the demo ends, so does it,
and says which. Data, checkpoints and results stay in one directory, and the next start goes on with them.
"""

import os
import shlex
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.demo import arguments
from headwater.demo.observing import Observer
from headwater.demo.schema_registry import DemoRegistry
from headwater.demo.view import Screen
from headwater.demo.visitors import Visitors
from headwater.demo.visits import visits_app
from headwater.demo.watched_processes import Process, Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

VIEWS: Final = "website.views"
SECTIONS: Final = "website.sections"
VISITS: Final = "website.visits"
PARTITIONS: Final = 3
_TRIGGER: Final = "2 seconds"
_LOOKS_S: Final = 0.5
_STARTS: Final = 5
_STARTING_S: Final = 0.1
_SLOW_START: Final = "Python worker failed to connect back"
_DRAINS_S: Final = 240.0  # whoever does not want to wait presses Ctrl-C again


def main() -> int:
    given = arguments.parse()
    directory = arguments.directory_of(given)
    stop = threading.Event()
    threading.Thread(target=_set_at_end_of_input, args=(stop,), daemon=True).start()
    screen = Screen()
    with Watch(lambda error: screen.say(f"The demo could not go on. {error}"), lambda: os._exit(1)) as watch:
        try:
            return _run(directory, given.rate, given.seconds, screen, stop, watch)
        except UserError as error:
            if watch.error is None:
                screen.say(f"The demo could not go on. {error}")
            return 1
        except Exception as error:  # noqa: BLE001 (standard error goes to the log by now, and nobody would see it)
            traceback.print_exc()
            if watch.error is None:
                log = arguments.log_of(directory)
                screen.say(f"The demo broke: {type(error).__name__}: {error}. The whole story is in {log}")
            return 1


def _set_at_end_of_input(stop: threading.Event) -> None:
    while os.read(0, 4096):  # not through sys.stdin: a thread that holds its lock would break the exit
        pass
    stop.set()


def _send_errors_to(path: Path) -> None:
    """What the JVM and the workers write to their standard error would tear the picture."""
    sys.stderr.flush()
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)


def _run(
    directory: Path, rate: float, seconds: float | None, screen: Screen, stop: threading.Event, watch: Watch
) -> int:
    from headwater.testing import Broker

    data = directory / "broker"
    screen.say(f"Everything is kept in {directory}{'; going on from last time' if data.exists() else ''}")
    data.mkdir(parents=True, exist_ok=True)
    _send_errors_to(arguments.log_of(directory))
    broker_log, registry_log = directory / "broker.log", directory / "registry.log"
    with (
        Broker(data_dir=str(data), log_file=str(broker_log)) as broker,
        watch.over("The broker", broker, broker_log),
    ):
        screen.say(f"A broker is on {broker.bootstrap_servers}; Spark takes some seconds to start")
        _create_topics(broker.bootstrap_servers)
        with (
            DemoRegistry(broker.bootstrap_servers, registry_log) as registry,
            watch.over("The schema registry", registry, registry_log),
            Visitors(broker.bootstrap_servers, VIEWS, rate) as visitors,
        ):
            screen.say(_typed_hint(broker.bootstrap_servers, registry.url))
            application = visits_app(broker.bootstrap_servers, VIEWS, VISITS, registry.url)
            with application.run_here(state_dir=directory / "streams") as streams:
                observer = Observer(broker.bootstrap_servers, directory, (VIEWS, SECTIONS, VISITS), PARTITIONS, streams)
                try:
                    return _pipelines(
                        broker.bootstrap_servers, directory, seconds, screen, stop, visitors, observer, watch
                    )
                finally:
                    observer.close()


def _typed_hint(servers: str, registry: str) -> str:
    command = f"headwater consume {VISITS} --bootstrap-server {servers} --registry {registry}"
    return f"Visits are typed, with a schema at {registry}; meanwhile, in another terminal:\n  {command}"


def _pipelines(
    servers: str,
    directory: Path,
    seconds: float | None,
    screen: Screen,
    stop: threading.Event,
    visitors: Visitors,
    observer: Observer,
    watch: Watch,
) -> int:
    import headwater.spark

    spark = headwater.spark.session("headwater demo")
    try:
        with watch.over("Spark's JVM", _jvm_of(spark), arguments.log_of(directory)):
            screen.say("Spark has started; its three queries are next")
            queries = start_queries(spark, servers, directory)
            screen.say("Ctrl-C ends it\n")
            end_s = None if seconds is None else time.monotonic() + seconds
            while not stop.wait(_LOOKS_S) and not (end_s is not None and time.monotonic() > end_s):
                watch.check()
                screen.show(observer.look(visitors, queries, "running"))
                _raise_failure(queries)
            visitors.stop()
            drained = _drain(screen, visitors, queries, observer, watch)
            for query in queries:
                query.stop()
    finally:
        spark.stop()
    screen.say(_farewell(directory, drained))
    return 0


def start_queries(
    spark: "SparkSession", servers: str, directory: Path, *, until_now: bool = False
) -> "list[StreamingQuery]":
    """Each output is a query with its own group and checkpoint: one that is stopped holds up none of the others.

    The table has every window from its first view on, and is kept up to date; the topic gets each window once, when it
    is over and late views have had their time. `until_now` ends them when they have read all there is.
    """
    from headwater.demo import pipeline
    from headwater.spark import sinks

    known_pages = pipeline.pages(spark)

    def views(name: str) -> "DataFrame":
        records = (
            spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", servers)
            .option("kafka.group.id", f"demo-{name}")
            .option("subscribe", VIEWS)
            .option("startingOffsets", "earliest")
            .load()
        )
        return pipeline.enriched(pipeline.page_views(records), known_pages)

    final = pipeline.as_records(pipeline.per_section(views("topic"))).writeStream.outputMode("append")
    topic = final.format("headwater").option("kafka.bootstrap.servers", servers).option("topic", SECTIONS)
    files = views("parquet").writeStream.foreachBatch(sinks.topic_files(str(directory / "views")))
    database = str(directory / "results.db")
    into_table = sinks.into("headwater-sqlite", path=database, table="sections", keys="window_start,section")
    table = pipeline.per_section(views("sqlite")).writeStream.outputMode("update").foreachBatch(into_table)
    trigger: dict[str, Any] = {"availableNow": True} if until_now else {"processingTime": _TRIGGER}
    return [
        start(writer.queryName(name).option("checkpointLocation", f"{directory}/checkpoints/{name}").trigger(**trigger))
        for name, writer in (("topic", topic), ("parquet", files), ("sqlite", table))
    ]


def start(writer: "DataStreamWriter") -> "StreamingQuery":
    """One after the other: a source has ten seconds to start its Python, which several at once on a busy machine
    exceed.

    Such a start has done nothing yet, and is tried again.
    """
    for tries_left in range(_STARTS, 0, -1):
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(_STARTING_S)
        error = query.exception()
        if error is None or _SLOW_START not in str(error) or tries_left == 1:
            break
    return query


def _create_topics(servers: str) -> None:
    from headwater.client import Admin, ErrorCode, KafkaError, NewTopic

    with Admin(bootstrap_servers=servers) as admin:
        made = admin.create_topics([NewTopic(name, PARTITIONS) for name in (VIEWS, SECTIONS, VISITS)])
        for answer in made.values():
            if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise answer


def _jvm_of(spark: "SparkSession") -> Process:
    process: Process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    return process


def _drain(
    screen: Screen, visitors: Visitors, queries: "list[StreamingQuery]", observer: Observer, watch: Watch
) -> bool:
    """The visitors are gone; each query reads what they left. False: it took too long."""
    deadline_s = time.monotonic() + _DRAINS_S
    while time.monotonic() < deadline_s:
        watch.check()
        snapshot = observer.look(visitors, queries, "ending")
        screen.show(snapshot)
        if all(each.lag == 0 for each in snapshot.outputs):
            return True
        _raise_failure(queries)
        time.sleep(_LOOKS_S)
    return False


def _raise_failure(queries: "list[StreamingQuery]") -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            what, _, _ = str(error).partition("JVM stacktrace")
            raise UserError(
                f"The query {query.name!r} failed", what.strip(), "Start the demo again: it goes on from there"
            )


def _farewell(directory: Path, drained: bool) -> str:
    done = "every page view is in each output once" if drained else "what is not read yet is read by the next start"
    typed = shlex.quote(str(directory))
    return "\n".join(
        (
            "",
            f"All is ended; {done}. To look at the results:",
            f"  sqlite3 {typed}/results.db 'SELECT section, sum(views) FROM sections GROUP BY section'",
            f"  ls {typed}/views/topic={VIEWS}/partition=0",
            f"  rm -r {typed}    # to begin anew",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
