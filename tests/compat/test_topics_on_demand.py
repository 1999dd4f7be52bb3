"""Topics that are not there: created on demand, or the right error; names and records that a topic does not take."""

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.clients import Client, ClientError, Message
from compat.support.raw import Raw, metadata, wait_for_topic


def test_produce_creates_the_topic(client: Client, broker_address: str, topic: str) -> None:
    client.produce(broker_address, topic, [Message(value=b"first")])
    assert [record.value for record in client.consume(broker_address, topic, 1)] == [b"first"]


def test_metadata_creates_only_when_asked(broker_address: str, topic: str) -> None:
    with Raw(broker_address) as connection:
        assert connection.call(metadata(topic, create=False)).topics[0].error_code == 3
        assert connection.call(metadata(topic, create=True)).topics[0].error_code in (0, 3, 5)
        wait_for_topic(broker_address, topic)
        assert len(connection.call(metadata(topic, create=False)).topics[0].partitions) == 1


@pytest.mark.parametrize("name", ["no/slashes", "no spaces", "..", "x" * 250, "ünïcode"])
def test_invalid_names_are_never_created(broker_address: str, name: str) -> None:
    with Raw(broker_address) as connection:
        assert connection.call(metadata(name, create=True)).topics[0].error_code == 17


def test_auto_creation_can_be_off(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, client_named: Callable[[str], Client]
) -> None:
    broker = broker_factory(tmp_path, auto_create_topics_enable="false")
    config = {"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 300}
    producer = confluent_kafka.Producer(config)
    errors: list[int] = []
    producer.produce(topic, b"lost", on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(60) == 0
    assert errors in ([confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART], [confluent_kafka.KafkaError._UNKNOWN_TOPIC])
    with Raw(broker.bootstrap) as connection:
        assert connection.call(metadata(topic, create=True)).topics[0].error_code == 3


def test_num_partitions_counts_for_topics_on_demand(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, client_named: Callable[[str], Client]
) -> None:
    broker = broker_factory(tmp_path, num_partitions="4")
    client_named("confluent").produce(broker.bootstrap, topic, [Message(value=b"v")], partition=3)
    assert client_named("confluent").positions(broker.bootstrap, topic, 3) == (0, 1)


@pytest.mark.parametrize("name", ["confluent", "kafka-python", "aiokafka", "java"])
def test_a_compacted_topic_takes_no_record_without_a_key(
    name: str,
    client_named: Callable[[str], Client],
    broker_address: str,
    topic: str,
    create_topic: Callable[..., None],
) -> None:
    create_topic(topic, {"cleanup.policy": "compact"})
    client = client_named(name)
    with pytest.raises(ClientError) as raised:
        client.produce(broker_address, topic, [Message(value=b"no key")])
    assert raised.value.code == (-1 if name == "aiokafka" else 87), raised.value  # aiokafka does not know the code
    client.produce(broker_address, topic, [Message(value=b"v", key=b"k"), Message(value=None, key=b"k")])
    assert [record.value for record in client.consume(broker_address, topic, 2)] == [b"v", None]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_codec_recompresses(
    client_named: Callable[[str], Client],
    broker_address: str,
    headwater_process: BrokerProcess,
    topic: str,
    codec: str,
    create_topic: Callable[..., None],
) -> None:
    create_topic(topic, {"compression.type": codec})
    client = client_named("confluent")
    messages = [Message(value=b"v%d " % n * 50, key=b"k", headers=(("h", b"1"),)) for n in range(20)]
    for sent in ("none", "lz4"):
        assert len(client.produce(broker_address, topic, messages, codec=sent)) == 20
    written = Path(headwater_process.log_dir, f"{topic}-0", "00000000000000000000.log").read_bytes()
    assert {attributes & 7 for attributes in _attributes(written)} == {
        ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(codec)
    }
    for name in ("confluent", "java", "kafka-python", "aiokafka", "kcat"):
        received = client_named(name).consume(broker_address, topic, 40)
        assert [record.value for record in received] == [message.value for message in messages] * 2, name
        assert [record.offset for record in received] == list(range(40))


def _attributes(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(int.from_bytes(data[at + 21 : at + 23], "big"))
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found
