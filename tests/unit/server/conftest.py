"""Nodes for the server's tests: the loop is turned by hand, and everything is gone after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.server.node import Node
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.server.support.by_hand import TOPIC, Client, frame

MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """`make_node(num_partitions=3)` starts a node on the test's directory."""
    made: list[Node] = []

    def make(**properties: object) -> Node:
        settings = {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "socket.request.max.bytes": str(8 << 20),
            "num.partitions": "2",
            **{name.replace("_", "."): str(value) for name, value in properties.items()},
        }
        node = Node(BrokerConfig(settings))
        node.start()
        made.append(node)
        return node

    yield make
    for node in made:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node()


@pytest.fixture
def connect(node: Node) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def make() -> Client:
        clients.append(Client(node))
        return clients[-1]

    first = make()
    first.send(frame(3, 9, 1, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]).encode(9)))
    first.receive()
    yield make
    for client in clients:
        client.socket.close()
