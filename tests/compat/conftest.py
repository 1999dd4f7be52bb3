"""Brokers and clients for the compatibility tests.

The broker under test is Headwater, started as users start it. With HEADWATER_COMPAT_TARGET=apache it is Apache Kafka
4.3 (one KRaft node, from Maven Central): every test here passes against it too, which shows that the tests ask for what
Kafka does and not for what we happen to do. Run both when you add a test:

    pytest tests/compat
    HEADWATER_COMPAT_TARGET=apache pytest tests/compat

One broker serves the whole session; a test keeps to itself by its own topic names (fixture `topic`). Tests that kill,
restart or configure a broker get their own from `broker_factory`.
"""

import contextlib
import gc
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.broker import ApacheBroker, BrokerProcess, HeadwaterBroker
from compat.support.clients import CLIENTS, Client
from compat.support.java import Java
from compat.support.members import MEMBERS, Joining, Member
from compat.support.quick import QUICK, SOAK
from compat.support.topics import make_topic
from compat.support.transactional import PRODUCERS, Refused, Transactional

APACHE = os.environ.get("HEADWATER_COMPAT_TARGET") == "apache"
BrokerFactory = Callable[..., BrokerProcess]
collect_ignore = (
    []
    if SOAK
    else ["test_debezium_live.py", "test_connect_cassandra.py", "test_connect_mongo.py", "test_connect_opensearch.py"]
)  # for their jars

_numbers = itertools.count(1)


def _make_broker(directory: Path, properties: dict[str, str]) -> BrokerProcess:
    return (ApacheBroker if APACHE else HeadwaterBroker)(directory, properties)


def _end(broker: BrokerProcess) -> None:
    try:
        assert broker.alive, f"the broker died during the tests; its log ends:\n{broker.log[-4000:]}"
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def headwater_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Tests write records with timestamps of years ago; retention, every five minutes, would take one away now and then.
    settings = {"log.retention.check.interval.ms": "86400000", "group.initial.rebalance.delay.ms": "0"}
    broker = _make_broker(tmp_path_factory.mktemp("broker"), settings)
    broker.start()
    yield broker
    _end(broker)


@pytest.fixture(scope="session")
def apache() -> bool:
    """Whether the broker under test is Apache Kafka."""
    return APACHE


@pytest.fixture(scope="session")
def broker_address(headwater_process: BrokerProcess) -> str:
    """host:port of the shared broker."""
    return headwater_process.bootstrap


@pytest.fixture
def broker_factory() -> Iterator[BrokerFactory]:
    """`broker_factory(tmp_path, **properties)`: a started broker of one's own; dots in names as underscores."""
    brokers: list[BrokerProcess] = []

    def factory(directory: Path, **properties: object) -> BrokerProcess:
        named = {name.replace("_", "."): str(value) for name, value in properties.items()}
        broker = _make_broker(directory, named)
        brokers.append(broker)
        broker.start()
        return broker

    yield factory
    for broker in brokers:
        broker.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The topic does not exist yet."""
    name = request.node.originalname.removeprefix("test_")[:60]
    return f"{name}.{next(_numbers)}"


@pytest.fixture
def create_topic(broker_address: str) -> Callable[..., None]:
    """`create_topic(name, {config}, partitions=1)`, with a client that is not the point of the test."""

    def create(name: str, config: dict[str, str] | None = None, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": broker_address})
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=config or {})]).values():
            future.result(60)

    return create


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    harness = Java()
    yield harness
    harness.close()


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    return make_client(request, request.param)


@pytest.fixture
def client_named(request: pytest.FixtureRequest) -> Callable[[str], Client]:
    return lambda name: make_client(request, name)


def make_client(request: pytest.FixtureRequest, name: str) -> Client:
    if name == "kcat":
        request.getfixturevalue("require")("kcat")
    return CLIENTS[name](request.getfixturevalue("java") if name == "java" else None)


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker of the tests of groups and transactions: its timeouts are short."""
    broker = _make_broker(tmp_path_factory.mktemp("group-broker"), QUICK)
    broker.start()
    yield broker
    _end(broker)


@pytest.fixture(scope="session")
def group_java() -> Iterator[Java]:
    """The JVM of Groups.java."""
    harness = Java("Groups")
    yield harness
    harness.close()


@pytest.fixture
def group_topic(group_broker: BrokerProcess, topic: str) -> Callable[..., str]:
    """`group_topic(partitions, suffix)`: a new topic of the test's own on that broker, ready; its name."""

    def create(partitions: int = 1, suffix: str = "") -> str:
        make_topic(group_broker.bootstrap, topic + suffix, partitions)
        return topic + suffix

    return create


@pytest.fixture
def join(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`join("kcat", group="g", topics=("t",))`: a member that polls (see Joining); on `broker` instead of the shared
    one.
    """
    members: list[Member] = []

    def join_group(name: str, *, broker: BrokerProcess | None = None, **joining: Any) -> Member:
        if name == "kcat":
            request.getfixturevalue("require")("kcat")
        at = broker or request.getfixturevalue("group_broker")
        harness = request.getfixturevalue("group_java") if name == "java" else None
        member = MEMBERS[name](at.bootstrap, Joining(**joining), harness)
        member.open()
        members.append(member)
        return member

    yield join_group
    for member in members:
        member.close()
    if any(member.name == "kafka-python" for member in members):
        forget_sockets()


def forget_sockets() -> None:
    """kafka-python leaves sockets open that found no broker: collected here, they warn no other test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def transactional(request: pytest.FixtureRequest) -> Iterator[Callable[..., Transactional]]:
    """`transactional("java", "an id")`: a producer whose transactions have been initialised; on `broker`, if given."""
    producers: list[Transactional] = []

    def make(name: str, id_: str, *, broker: BrokerProcess | None = None, **options: Any) -> Transactional:
        at = broker or request.getfixturevalue("group_broker")
        harness = request.getfixturevalue("group_java") if name == "java" else None
        producer = PRODUCERS[name](at.bootstrap, id_, java=harness, **options)
        producers.append(producer)
        producer.init()
        return producer

    yield make
    for producer in producers:
        with contextlib.suppress(Refused):  # one that was fenced may say so again
            producer.close()
