"""Where ZooKeeper's server is on this machine: a Java, and the jars that lie in PySpark. PySpark itself is not
imported.
"""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_NEEDED: Final = ("zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")
_FOR_LOGS: Final = ("log4j-slf4j2-impl-*", "log4j-api-2*", "log4j-core-*")
_FOR_TLS: Final = tuple(
    f"netty-{part}-[0-9]*"
    for part in (
        "buffer",
        "codec",
        "codec-base",
        "codec-compression",
        "common",
        "handler",
        "resolver",
        "transport",
        "transport-classes-epoll",
        "transport-native-unix-common",
        "tcnative-classes",
    )
)  # a server with a secureClientPort
_HEAP: Final = "-Xmx128m"
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


def server_command(config: Path, log_level: str, *java: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What runs a server with that configuration. It logs to stdout. `java`: its options, about its memory first."""
    return [
        str(find_java(environment)),
        *(java or (_HEAP,)),
        *_OPTIONS,
        f"-Dlog4j2.level={log_level}",
        "-Dslf4j.internal.verbosity=ERROR",
        "-cp",
        ":".join(map(str, find_jars(spark_jars()))),
        MAIN_CLASS,
        str(config),
    ]


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    home = environment.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return Path(home) / "bin" / "java"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise UserError(
            "ZooKeeper needs Java, and none was found",
            "neither JAVA_HOME nor PATH leads to one" if not home else f"JAVA_HOME is {home}, and PATH leads to none",
            "Install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or name a ZooKeeper that runs"
            " elsewhere with zookeeper.connect",
        )
    return Path(found)


def spark_jars() -> Path:
    """The directory; there may be no PySpark, and then there is no such directory."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed("PySpark, whose jars hold it, is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "jars"


def find_jars(directory: Path) -> list[Path]:
    """What the server needs, and what its log and TLS need if that is there."""
    found: list[Path] = []
    for pattern in (*_NEEDED, *_FOR_LOGS, *_FOR_TLS):
        jars = sorted(directory.glob(f"{pattern}.jar"))
        if jars:
            found.append(jars[-1])
        elif pattern in _NEEDED:
            raise _not_installed(f"there is no {pattern}.jar in {directory}")
    return found


def _not_installed(why: str) -> UserError:
    return UserError("ZooKeeper's server was not found on this machine", why, "pip install 'headwater[cluster]'")
