"""Makes the archive of Spark's classes (`class_archive`): `python -m headwater.spark.make_class_archive`.

A small application runs (`class_training`), its driver and its executor write down which classes they load, and Java
writes the archive. It is put in place when it is complete and a JVM has started with it, so that whoever starts
meanwhile finds the one before, or none.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError
from headwater.base.own_module import module_command
from headwater.spark.class_archive import archive_options, archive_path, jars_directory
from headwater.spark.class_training import CLASS_PATH
from headwater.spark.java import ensure_java
from headwater.spark.sessions import data_home

_PATIENCE_S: Final = 1800.0


def merged(lists: Iterable[str]) -> list[str]:
    """The classes of several JVMs, each once, in the order in which they were loaded."""
    lines = (line for text in lists for line in text.splitlines() if line and not line.startswith("#"))
    return list(dict.fromkeys(lines))


def make_archive(directory: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """`directory`: the data home. Takes a minute or two."""
    java = ensure_java(directory, environment, say=_say) / "bin/java"
    place = archive_path(directory, jars_directory(environment))
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=place.parent, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        _call(module_command("headwater.spark.class_training", made), {**environment, **_home(environment)})
        lists = [each.read_text() for each in sorted(folder.glob("*.lst"))]
        (folder / "classes").write_text("\n".join(merged(lists)) + "\n")
        archive, class_path = folder / "classes.jsa", (folder / CLASS_PATH).read_text()
        command = [
            str(java),
            "--add-modules=jdk.incubator.vector",
            "-cp",
            class_path,
            f"-XX:SharedArchiveFile={archive}",
        ]
        _call([*command, "-Xshare:dump", f"-XX:SharedClassListFile={folder / 'classes'}", "-Xlog:cds=off"], environment)
        _call([*command, "-Xshare:on", "-version"], environment)
        archive.rename(place)
    return place


def _home(environment: Mapping[str, str]) -> dict[str, str]:
    """Executors are started from Spark's directory, which PySpark alone does not name."""
    return {"SPARK_HOME": str(jars_directory(environment).parent), "SPARK_LOCAL_IP": "127.0.0.1"}


def _call(command: list[str], environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError("The archive of Spark's classes was not made", str(error)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise UserError("The archive of Spark's classes was not made", f"{Path(command[0]).name} failed: {said}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    try:
        made = make_archive(data_home(os.environ))
    except UserError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{made}\nFor masters and workers, in SPARK_DAEMON_JAVA_OPTS: {archive_options(made)}\n")
