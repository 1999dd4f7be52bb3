"""A streams application on a Spark standalone cluster of three workers, of which one is killed on the way. Only in
`make soak`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.testing import Broker
from spark.support.standalone import StandaloneCluster
from spark.support.streams_drivers import Driver
from spark.test_streams_on_spark import Bench

pytestmark = pytest.mark.soak(only=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path / "cluster", workers=3) as cluster:
        yield cluster


@pytest.mark.timeout(1800)
def test_a_worker_of_the_cluster_dies(cluster: StandaloneCluster, tmp_path: Path) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        bench = Bench(broker)
        driver = Driver(tmp_path / "driver.log", master=cluster.master)
        try:
            bench.send(200)
            driver.ask(run="killed", servers=bench.servers, state=str(tmp_path / "state"), store="lmdb", lease=3600.0)
            assert bench.read("killed") == bench.expected()
            for number in range(2):
                bench.send(100)
                cluster.kill_worker(number)
                bench.send(100)
                assert bench.read("killed") == bench.expected()
            driver.ask(stop="killed")
            bench.check_stopped("killed")
        finally:
            driver.close()
