"""The demo's pipeline on a Spark standalone cluster: one master, two workers, of which one is killed on the way."""

import time
from pathlib import Path

import pytest

from headwater.testing import Broker
from spark.support.demo_results import Visits
from spark.support.pipelines import PipelineProcess
from spark.support.standalone import StandaloneCluster


@pytest.mark.timeout(1200)
def test_the_same_pipeline_on_a_cluster(tmp_path: Path) -> None:
    logs = tmp_path / "cluster"
    logs.mkdir()
    directory = tmp_path / "results"
    with Broker() as broker, StandaloneCluster(logs, workers=2) as cluster:
        visits = Visits(broker.bootstrap_servers)
        visits.send()
        visits.send()
        process = PipelineProcess(
            broker.bootstrap_servers, directory, master=cluster.master, executors=2, until_now=True
        )
        try:
            process.wait_until_started()
            time.sleep(1)
            cluster.kill_worker(1)
            process.finish()
        finally:
            process.close()
        visits.check(directory)
