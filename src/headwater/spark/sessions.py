"""A SparkSession with settings that serve pipelines, and `format("headwater")` in it.

The settings: state in RocksDB with changelog checkpoints; few shuffle partitions; the checkpoint files written by the
faster manager; quiet logs; secrets of Kafka's settings hidden where Spark shows settings and options (its UI, the event
log); tasks in the Python that runs this; on one machine, the JVM and its Pythons talk over Unix domain sockets in a
directory that only this user can enter: over TCP each small batch waits some 40 ms for an acknowledgement that is held
back; JVMs map Spark's classes from an archive, where one was made (`class_archive`). Three are there for correctness
of the exactly-once writer, and cannot be changed here: no speculation, no re-planning of stateless micro-batches, and
the write-ahead log of offsets as Spark has it.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from headwater.base.errors import UserError
from headwater.base.extras import SPARK, require_extra
from headwater.spark.class_archive import archive_options, find_archive

if TYPE_CHECKING:
    require_extra("spark", "A Spark session", SPARK)
    from pyspark.sql import SparkSession

_STATE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_SECRETS: Final = (  # of names and of values: Spark's own words, and those of Kafka's settings
    "(?i)secret|password|passwd|passphrase|token|access[.]?key|jaas[.]config|keystore[.]key|private[. ]?key|user[.]info|credential"
)
_LOCAL_PARTITIONS_MAX: Final = 8
_END_PATIENCE_S: Final = 30.0
_SOCKET_PATH_CHARS_MAX: Final = 103  # of macOS; Linux has 107
_SOCKET_NAME_CHARS: Final = len(f".{UUID(int=0)}.sock")

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A driver that dies while it writes down its first batch leaves a temporary file, and a new one would be refused.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": _SECRETS,
    "spark.sql.redaction.options.regex": f"{_SECRETS}|url",
}
# In front of the `extraJavaOptions` that a user has set, perhaps in spark-defaults.conf: those replace, and are kept.
_DRIVER_JAVA: Final = "spark.driver.defaultJavaOptions"
_EXECUTOR_JAVA: Final = "spark.executor.defaultJavaOptions"
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1"
_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
FIXED: Final[Mapping[str, str]] = {
    "spark.speculation": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


def session(name: str, *, master: str | None = None, **options: Any) -> "SparkSession":
    """`session("clicks")`, `session("clicks", master="spark://host:7077", spark_executor_memory="2g")`.

    Options are Spark's settings, with their dots or with underscores for them. On a laptop the master is this process;
    with $SPARK_MASTER or `master` it is a cluster, and the code is the same. The session is a new one unless this
    process has one already: then that one is given, with the format registered.
    """
    from pyspark.sql import SparkSession

    from headwater.spark.spark_home import lean_home

    chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
    is_new = SparkSession.getActiveSession() is None
    sockets = private_directory() if is_new and is_local(chosen) else None
    archive = find_archive(data_home(os.environ)) if is_new else None
    settings = settings_for(chosen, options, os.cpu_count() or 1, sockets, archive)
    if is_new:
        _prepare_process(chosen)
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, text in settings.items():
        builder = builder.config(key, text)
    with lean_home(data_home(os.environ)) if is_local(chosen) else nullcontext():
        spark = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: "SparkSession") -> None:
    """Adds `format("headwater")`, and the formats of the database sinks, to a session that exists."""
    from headwater.spark.data_source import HeadwaterDataSource
    from headwater.spark.query_listener import add_query_listener
    from headwater.spark.sinks import register as register_sinks

    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise UserError(
            "Speculation is on in this session",
            "two attempts of one task at a time would abort each other's transactions",
            "Set spark.speculation to false when the session is made",
        )
    spark.conf.set("spark.sql.adaptive.streaming.stateless.enabled", "false")
    spark.dataSource.register(HeadwaterDataSource)
    register_sinks(spark)
    add_query_listener(spark)


def settings_for(
    master: str, options: Mapping[str, Any], cores: int, sockets: Path | None = None, archive: Path | None = None
) -> dict[str, str]:
    """Ours, then the caller's. Pure but for the path of the log's configuration. `sockets`: where Unix domain sockets
    may be made. `archive`: of Spark's classes, for the JVM of this process, and for executors, which may not have it.
    """
    settings = dict(SETTINGS)
    if archive is not None and (java := archive_options(archive)):
        settings |= dict.fromkeys([_DRIVER_JAVA] if is_local(master) else [_DRIVER_JAVA, _EXECUTOR_JAVA], java)
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{_log_configuration()}"
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(min(cores, _LOCAL_PARTITIONS_MAX))
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        if sockets is not None and len(f"{sockets}/") + _SOCKET_NAME_CHARS <= _SOCKET_PATH_CHARS_MAX:
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(sockets)
    for given, value in options.items():
        name = given if "." in given else given.replace("_", ".")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if FIXED.get(name, text) != text:
            raise UserError(
                f"{name} cannot be {text}",
                "with it, a batch that is tried again could write other records than the first time",
                "Leave it away",
            )
        if name.endswith("JavaOptions") and name in settings:
            text = f"{settings[name]} {text}"
        settings[name] = text
    return {**settings, **FIXED}


def has_jvm() -> bool:
    """Whether this process has one already."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def end_jvm() -> None:
    """Stops the session of this process, and its JVM, which else lives as long as the process; also one that has died.
    A later session has another.

    PySpark keeps the way to its JVM in attributes of its classes, and has no call for this.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if context is not None:
        with warnings.catch_warnings(), suppress(Exception):  # one that has died does not answer
            warnings.simplefilter("ignore")
            context.stop()
    with SparkContext._lock:
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is None:  # spark-submit has started it, and ends it
        return
    process.stdin.close()
    try:
        process.wait(_END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def master_with_retries(master: str, failures: int = 1000) -> str:
    """On one machine Spark tries no task again unless it is told to; the death of one slot of streams would end the
    others' leases.
    """
    return re.sub(r"^local\[(\d+|\*)\]$", rf"local[\1,{failures}]", master)


def slot_settings(master: str, *, frames: bool = False) -> dict[str, str]:
    """For a session whose tasks are slots. On a cluster each loss of an executor counts as a failure of the tasks it
    had, and by Spark's default the leases of all slots would be renewed at the second of one slot.

    No record goes through these JVMs, so nothing in them is worth compilers that take half of the processor while they
    start: Java's quick one alone is used, and plans are interpreted, unless DataFrames are processed, too (`frames`).
    """
    settings = {} if is_local(master) else {"spark.task.maxFailures": "20"}
    if not frames:
        settings |= dict.fromkeys((_DRIVER_JAVA, _EXECUTOR_JAVA), QUICK_JAVA) | _INTERPRETED
    return settings


def private_directory() -> Path:
    """Made anew, with mode 700: whoever can connect to these sockets can make Spark's Pythons run what he likes. Gone
    with this process.
    """
    made = Path(tempfile.mkdtemp(prefix="headwater-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _prepare_process(master: str) -> None:
    """The JVM takes these from the environment, so they must be there before it starts."""
    from headwater.spark.java import ensure_java

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(ensure_java(data_home(os.environ), say=_say))


def data_home(environment: Mapping[str, str]) -> Path:
    """$HEADWATER_DATA_DIR, else `headwater` in the user's data home (XDG): where the command line keeps things, too."""
    if named := environment.get("HEADWATER_DATA_DIR"):
        return Path(named).expanduser()
    home = environment.get("XDG_DATA_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local/share") / "headwater"


def _log_configuration() -> Path:
    return Path(__file__).with_name("log4j2.properties")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
