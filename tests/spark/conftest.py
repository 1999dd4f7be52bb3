"""One broker and one SparkSession for all tests here: a session takes six to ten seconds to start.

A test keeps to itself by its own topic names (fixture `topic`) and its own checkpoint directory.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from compat.support.quick import SOAK
from headwater.testing import Broker
from spark.support import class_archive
from spark.support.class_archive import QUICK_JAVA

collect_ignore = [] if SOAK else ["test_hdfs.py"]

_numbers = itertools.count(1)

Produce = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mine = item.path.is_relative_to(Path(__file__).parent)
        if mine and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))  # JVMs on a machine that is busy: minutes for what takes seconds


@pytest.fixture(scope="session")
def archived_classes() -> str:
    """An option of JVMs with Spark in them."""
    return class_archive.options()


@pytest.fixture(autouse=True)
def quick_java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the JVMs of processes that tests start."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    if request.node.get_closest_marker("spark") is not None:
        monkeypatch.setenv(class_archive.OPTIONS, request.getfixturevalue("archived_classes"))


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture(scope="session")
def spark(archived_classes: str) -> Iterator[SparkSession]:
    import headwater.spark

    session = headwater.spark.session(
        "headwater tests",
        master="local[2]",
        **{
            "spark.jars": ",".join(_connector_jars()),
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {archived_classes}".strip(),
        },
    )
    yield session
    session.stop()


def _connector_jars() -> list[str]:
    """The jars of tests/spark/connector/pom.xml, if tests/tools.sh has got them."""
    return [str(jar) for jar in sorted((Path(__file__).parent / "connector/target/lib").glob("*.jar"))]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname.removeprefix('test_')[:60]}.{next(_numbers)}"


@pytest.fixture
def create_topic(broker: Broker) -> Callable[..., None]:
    def create(name: str, partitions: int = 1, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        named = {key.replace("_", "."): text for key, text in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=named)]).values():
            future.result(60)

    return create


@pytest.fixture
def produce(broker: Broker) -> Produce:
    """`produce(topic, [values], partition=0)`, with a client that others wrote."""

    def send(name: str, values: list[bytes], *, partition: int = 0, key: bytes | None = None, **more: object) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in values:
            producer.produce(name, value, key=key, partition=partition, **more)
        assert producer.flush(60) == 0

    return send
