"""The demo: its pipeline on frames that do not stream, its queries against a broker, and `python -m headwater.demo`."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from headwater.demo import demo_run, pipeline
from headwater.testing import Broker
from spark.support.demo_results import BEGIN_MS, Visits


def test_the_pipeline(spark: SparkSession) -> None:
    def view(time_ms: int, visitor: str, page: str, load_ms: int) -> str:
        return json.dumps({"time_ms": time_ms, "visitor": visitor, "page": page, "load_ms": load_ms})

    values = [
        view(BEGIN_MS, "a", "/news/election", 100),
        view(BEGIN_MS + 9_999, "a", "/news/river-rises", 300),
        view(BEGIN_MS + 10_000, "b", "/news/election", 50),
        view(BEGIN_MS, "b", "/nowhere", 70),
        "GET / HTTP/1.1",
        "{}",
    ]
    rows = [("t", 0, offset, value.encode()) for offset, value in enumerate(values)]
    records = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")
    views = pipeline.enriched(pipeline.page_views(records), pipeline.pages(spark))
    assert sorted((row.offset, row.section) for row in views.collect()) == [
        (0, "news"),
        (1, "news"),
        (2, "news"),
        (3, "other"),
    ]
    numbers = pipeline.per_section(views)
    found = sorted((int(row.window_start.timestamp()), *row[1:]) for row in numbers.collect())
    begin = BEGIN_MS // 1000
    assert found == [(begin, "news", 2, 1, 300), (begin, "other", 1, 1, 70), (begin + 10, "news", 1, 1, 50)]
    (key, value) = min(
        (bytes(row.key).decode(), bytes(row.value).decode()) for row in pipeline.as_records(numbers).collect()
    )
    assert key == "2023-11-14T22:13:20Z/news"
    assert json.loads(value)["views"] == 2


def test_each_page_view_is_in_each_output_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Two runs, with views in between."""
    visits = Visits(broker.bootstrap_servers)
    for _ in range(2):
        visits.send()
        for query in demo_run.start_queries(spark, broker.bootstrap_servers, tmp_path, until_now=True):
            assert query.awaitTermination(300)
    visits.check(tmp_path)


def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headwater.demo", "--directory", str(tmp_path), "--rate", "50"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        shown = _wait_for(process, r"parquet [1-9].*streams [1-9]")
        family = psutil.Process(process.pid).children(recursive=True)
        assert any("java" in _name(each) for each in family)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to all of its group
        shown += process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 0, shown
    assert "every page view is in each output once" in shown
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


@pytest.mark.parametrize(
    ("victim", "killed_at", "name", "log"),
    [
        ("headwater.demo.demo_run", "A broker is on", "The demo's own", "spark.log"),
        ("headwater.server", "A broker is on", "The broker", "broker.log"),
        ("org.apache.spark.deploy.SparkSubmit", "Spark has started", "Spark's JVM", "spark.log"),
    ],
    ids=["its own process", "broker", "JVM"],
)
def test_who_was_killed_is_told_with_its_log(tmp_path: Path, victim: str, killed_at: str, name: str, log: str) -> None:
    """It was an exit code that nobody knows (254), an error of Py4J, or a minute of silence."""
    command = [sys.executable, "-m", "headwater.demo", "--directory", str(tmp_path), "--rate", "50"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        shown = _wait_for(process, killed_at)
        family = psutil.Process(process.pid).children(recursive=True)
        (killed,) = [each for each in family if victim in _arguments(each)]
        killed.kill()
        shown += process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert f"{name} (process {killed.pid}) has ended: signal SIGKILL. Its log is {tmp_path / log}" in shown
    assert shown.count("has ended") == 1
    assert (tmp_path / log).exists()
    assert process.returncode == 1, shown
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a worker that has ended by now
        return []


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:  # a worker that has ended by now
        return ""


def _wait_for(process: "subprocess.Popen[str]", pattern: str) -> str:
    assert process.stdout is not None
    shown = ""
    deadline_s = time.monotonic() + 400
    while time.monotonic() < deadline_s and process.poll() is None:
        if select.select([process.stdout], [], [], 1)[0]:
            shown += process.stdout.readline()
            if re.search(pattern, shown):
                return shown
    raise AssertionError(shown)
