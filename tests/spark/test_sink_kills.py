"""The demo's pipeline with its driver killed at random moments: topic, files and tables hold each page view once.

Its last life is on a Spark standalone cluster, with the checkpoints of those on one machine: one master, two workers,
of which one is killed on the way.
"""

import time
from pathlib import Path

import psycopg
import pytest

from chaos.support.dice import dice
from compat.support.quick import lasting
from headwater.testing import Broker
from spark.support.demo_results import Visits
from spark.support.pipelines import PipelineProcess
from spark.support.postgres import Postgres, postgres  # noqa: F401
from spark.support.standalone import StandaloneCluster


@pytest.mark.soak
@pytest.mark.timeout(lasting(1200, 3600))
def test_drivers_and_a_worker_that_are_killed_leave_each_effect_once(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
    archived_classes: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = dice()
    directory = tmp_path / "results"
    with Broker() as broker:
        visits = Visits(broker.bootstrap_servers)
        for _ in range(lasting(1, 30)):
            visits.send()
            process = PipelineProcess(broker.bootstrap_servers, directory, until_now=False, postgres=postgres.url)
            try:
                process.wait_until_started()
                time.sleep(chance.uniform(0, lasting(3, 8)))
                process.kill(whole=chance.random() < 0.5)
            finally:
                process.close()
        visits.send()
        with StandaloneCluster(tmp_path / "cluster", workers=2, java_options=archived_classes) as cluster:
            monkeypatch.setenv("SPARK_HOME", str(cluster.home))
            _finish_though_a_worker_dies(cluster, broker, directory, postgres.url)
        visits.check(directory)
    with psycopg.connect(postgres.url) as connection:
        views = connection.execute('SELECT count(*), count(DISTINCT (partition, "offset")) FROM views').fetchone()
    assert views == (visits.count, visits.count)


def _finish_though_a_worker_dies(
    cluster: StandaloneCluster, broker: Broker, directory: Path, postgres_url: str
) -> None:
    process = PipelineProcess(
        broker.bootstrap_servers,
        directory,
        master=cluster.master,
        executors=2,
        executor_options=cluster.java_options,
        until_now=True,
        postgres=postgres_url,
    )
    try:
        process.wait_until_started()
        time.sleep(1)
        cluster.kill_worker(1)
        process.finish()
    finally:
        process.close()
