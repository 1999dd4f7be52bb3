"""The pytest plugin: fixture `headwater_broker`, one broker for the session; `headwater_broker_factory` for more;
`headwater_streams` for test drivers of streams applications, which need no broker.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.testing.driver import Driver
    from headwater.testing.broker import Broker


@pytest.fixture(scope="session")
def headwater_broker() -> Iterator["Broker"]:
    """A broker on a free port: `headwater_broker.bootstrap_servers`."""
    from headwater.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def headwater_broker_factory() -> Iterator[Callable[..., "Broker"]]:
    """Makes brokers with settings of their own; all are gone after the test."""
    from headwater.testing.broker import Broker

    made: list[Broker] = []

    def make(config: dict[str, Any] | None = None, **settings: Any) -> Broker:
        broker = Broker(config, **settings)
        made.append(broker)
        return broker.start()

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def headwater_streams() -> Iterator[Callable[..., "Driver"]]:
    """`headwater_streams(app, partitions=1, now_ms=0)` is a test driver; all are closed after the test."""
    made: list[Driver] = []

    def make(app: "App", *, partitions: int = 1, now_ms: int = 0) -> "Driver":
        driver = app.test(partitions=partitions, now_ms=now_ms)
        made.append(driver)
        return driver

    yield make
    for driver in made:
        driver.close()
