"""Broker processes for the tests of hostile clients. Each file has its own, so that what it counts is its own doing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.raw import make_topic
from hostile.support.process import assert_no_complaint

StartBroker = Callable[..., BrokerProcess]
TOPIC = "served"


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """`start_broker(max_connections=5)`: a broker with a topic; dots in names as underscores. Its log must hold no
    error at the end.
    """
    brokers: list[BrokerProcess] = []

    def start(**properties: object) -> BrokerProcess:
        named = {name.replace("_", "."): str(value) for name, value in properties.items()}
        broker = HeadwaterBroker(tmp_path / f"broker-{len(brokers)}", named)
        brokers.append(broker)
        broker.start()
        make_topic(broker.bootstrap, TOPIC)
        return broker

    yield start
    try:
        for broker in brokers:
            assert_no_complaint(broker)
    finally:
        for broker in brokers:
            broker.kill()
