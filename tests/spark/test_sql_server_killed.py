"""A SQL server with its queries on Spark under kill -9, again and again: it is the driver, so nobody ends its JVM or
tells the slots. The next server goes on with each query, and each row is taken once. Of `make soak` alone;
`test_sql_on_spark` kills it once.
"""

import time
from pathlib import Path

import pytest

from chaos.support.dice import dice as throw_dice
from compat.support.local_cluster import until
from compat.support.sql_server import SqlServer
from headwater.testing import Broker
from spark.support.copying import descendants
from spark.support.sql_rows import PATIENCE_S, STATEMENTS, Given

ROUNDS = 12


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_each_row_is_taken_once_though_the_server_is_killed(tmp_path: Path) -> None:
    dice = throw_dice()
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        server = SqlServer(broker.bootstrap_servers, tmp_path, "killed_", spark_master="local[3]")
        given = Given(server, broker.bootstrap_servers)
        with server:
            server.run(STATEMENTS)
            given.send()
            given.check()
            for _ in range(ROUNDS):
                given.send()
                time.sleep(dice.uniform(0, 1.5))  # the kill comes before, within or after what is sent
                orphans = descendants(server.pid)
                server.kill()
                given.send()
                server.start()
                given.check()
                until(lambda left=orphans: not any(map(_lives, left)), f"of {orphans} one stays", PATIENCE_S)
            assert server.stop() == 0


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
