"""Where ZooKeeper's server is, and what is said when it is not there."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.server.zookeeper import installation
from headwater.server.zookeeper.installation import MAIN_CLASS, find_jars, find_java, server_command, spark_jars

NEEDED = [
    "zookeeper-3.9.5.jar",
    "zookeeper-jute-3.9.5.jar",
    "slf4j-api-2.0.17.jar",
    "metrics-core-4.2.37.jar",
    "snappy-java-1.1.10.8.jar",
]


def make_java(home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    return java


def test_java_is_looked_for_in_java_home_and_then_on_the_path(tmp_path: Path) -> None:
    of_home, on_path = make_java(tmp_path / "home"), make_java(tmp_path / "path")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environment) == of_home
    of_home.unlink()
    assert find_java(environment) == on_path


def test_no_java_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"needs Java.*neither JAVA_HOME nor PATH.*Install Java 17"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(UserError, match="JAVA_HOME is /nowhere"):
        find_java({"PATH": str(tmp_path), "JAVA_HOME": "/nowhere"})


def test_of_many_jars_those_that_are_needed(tmp_path: Path) -> None:
    for name in [*NEEDED, "zookeeper-tools.jar", "spark-core.jar", "log4j-core-2.25.4.jar"]:
        (tmp_path / name).touch()
    assert [path.name for path in find_jars(tmp_path)] == [*NEEDED, "log4j-core-2.25.4.jar"]


@pytest.mark.parametrize("missing", NEEDED)
def test_a_missing_jar_is_told(tmp_path: Path, missing: str) -> None:
    for name in set(NEEDED) - {missing}:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"not found on this machine.*pip install 'headwater\[cluster\]'"):
        find_jars(tmp_path)


def test_a_missing_pyspark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UserError, match=r"PySpark, whose jars hold it, is not installed"):
        spark_jars()


def test_the_command(tmp_path: Path) -> None:
    java = make_java(tmp_path)
    command = server_command(Path("/etc/zoo.cfg"), "WARN", environment={"JAVA_HOME": str(tmp_path)})
    assert command[0] == str(java)
    assert command[-2:] == [MAIN_CLASS, "/etc/zoo.cfg"]
    assert "-Xmx128m" in command
    wide = server_command(Path("/etc/zoo.cfg"), "WARN", "-Xmx1g", environment={"JAVA_HOME": str(tmp_path)})
    assert "-Xmx1g" in wide
    assert "-Xmx128m" not in wide
