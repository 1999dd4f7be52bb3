"""Spark's directory without the zip: when it serves, what is in it, and what several processes make of it at once."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from headwater.spark.spark_home import lean_home, make_home, serves


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "packages/pyspark"
    for name in ("bin/spark-submit", "jars/spark-core.jar", "python/lib/pyspark.zip", "version.py"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    return made


def test_it_has_all_but_the_zip(package: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path / "data", package, "4.3.0")
    assert (home / "jars/spark-core.jar").read_text() == "jars/spark-core.jar"
    assert sorted(os.listdir(home)) == ["bin", "conf", "jars", "version.py"]
    (package / "conf").mkdir()
    (package / "conf/spark-defaults.conf").write_text("spark.a b")
    assert (home / "conf/spark-defaults.conf").read_text() == "spark.a b"
    assert os.listdir(tmp_path / "data") == [home.name]


def test_it_is_made_once_and_again_when_the_package_was_moved_back(package: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path / "data", package, "4.3.0")
    before = home.stat().st_ino
    assert make_home(tmp_path / "data", package, "4.3.0").stat().st_ino == before
    shutil.rmtree(home)
    home.mkdir()  # what is left of one, without its links
    assert (make_home(tmp_path / "data", package, "4.3.0") / "bin/spark-submit").exists()
    elsewhere = package.parent / "other"
    package.rename(elsewhere)
    assert make_home(tmp_path / "data", elsewhere, "4.3.0") != home


def test_several_at_once_all_have_it(package: Path, tmp_path: Path) -> None:
    found: list[bool] = []

    def make() -> None:
        found.append((make_home(tmp_path / "data", package, "4.3.0") / "bin/spark-submit").exists())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 8
    assert len(os.listdir(tmp_path / "data")) == 1


def test_only_where_tasks_find_this_pyspark_and_nothing_else_was_asked_for(package: Path) -> None:
    installed = [str(package.parent)]
    assert serves(package, {}, "/usr/bin/python3", installed)
    assert serves(package, {"PYSPARK_PYTHON": "/usr/bin/python3"}, "/usr/bin/python3", installed)
    assert not serves(package, {"PYSPARK_PYTHON": "/other/python3"}, "/usr/bin/python3", installed)
    assert not serves(package, {"SPARK_HOME": "/opt/spark"}, "/usr/bin/python3", installed)
    assert not serves(package, {}, "/usr/bin/python3", ["/elsewhere"])
    (package / "bin/spark-submit").unlink()
    assert not serves(package, {}, "/usr/bin/python3", installed)


def test_it_is_named_for_the_start_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with lean_home(tmp_path):
        assert Path(os.environ["SPARK_HOME"]).parent == tmp_path / "spark"
    assert "SPARK_HOME" not in os.environ
    (tmp_path / "file").write_text("")
    with lean_home(tmp_path / "file"):  # no directory can be made there
        assert "SPARK_HOME" not in os.environ
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with lean_home(tmp_path):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
