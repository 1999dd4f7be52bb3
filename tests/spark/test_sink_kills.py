"""The demo's pipeline, and PostgreSQL, killed at random moments: topic, files and tables hold each page view once."""

import random
import time
from pathlib import Path

import psycopg
import pytest

from compat.support.quick import lasting
from headwater.testing import Broker
from spark.support.demo_results import Visits
from spark.support.pipelines import PipelineProcess
from spark.support.postgres import Postgres, postgres  # noqa: F401


@pytest.mark.soak
@pytest.mark.timeout(lasting(1200, 3600))
def test_a_driver_that_is_killed_leaves_each_effect_once(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    directory = tmp_path / "results"
    with Broker() as broker:
        visits = Visits(broker.bootstrap_servers)
        for _ in range(lasting(1, 30)):
            visits.send()
            process = PipelineProcess(broker.bootstrap_servers, directory, until_now=False, postgres=postgres.url)
            try:
                process.wait_until_started()
                time.sleep(chance.uniform(0, 8))
                process.kill(whole=chance.random() < 0.5)
            finally:
                process.close()
        visits.send()
        process = PipelineProcess(broker.bootstrap_servers, directory, until_now=True, postgres=postgres.url)
        try:
            process.finish()
        finally:
            process.close()
        visits.check(directory)
    with psycopg.connect(postgres.url) as connection:
        views = connection.execute('SELECT count(*), count(DISTINCT (partition, "offset")) FROM views').fetchone()
    assert views == (visits.count, visits.count), f"seed {seed}"
