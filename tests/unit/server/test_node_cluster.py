"""What somebody is told who starts a broker of a cluster where something is missing."""

from pathlib import Path

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.server.node import Node
from headwater.server.zookeeper.process import free_ports


def test_a_zookeeper_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    node = Node(
        BrokerConfig(
            {
                "log.dirs": str(tmp_path),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "zookeeper.connect": f"127.0.0.1:{port}",
                "zookeeper.connection.timeout.ms": "300",
            }
        )
    )
    with pytest.raises(UserError) as told:
        node.start()
    assert f"ZooKeeper does not answer at 127.0.0.1:{port}" in str(told.value)
    assert not (tmp_path / "meta.properties").exists()  # nothing was claimed for a cluster that nobody knows
