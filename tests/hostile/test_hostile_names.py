"""Names as attackers choose them, for topics, groups, transactions and clients: none becomes a path, a line of the log
of its own, or a metric that Prometheus would misread.
"""

import re
import socket
import urllib.request
from typing import Any

import pytest

from chaos.support.asking import ask_on
from compat.support.broker import BrokerProcess
from headwater.base.errors import ErrorCode
from headwater.client import Admin
from headwater.client.admin.quotas import quota_entity
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hostile.conftest import TOPIC, StartBroker
from hostile.support.frames import STRINGS
from hostile.support.process import WAIT_S

INTERNAL = {"__consumer_offsets", "__transaction_state"}
NAME_MAX = 32_767  # no client can send a longer one in older versions
NAMES = sorted({*STRINGS, "../../escaped", "a/b", "a\\b", 'a"b', "x" * 1_000_000} - INTERNAL)
GOOD = re.compile(r"[a-zA-Z0-9._-]{1,249}")
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ +headwater\S* [ -~]*")
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(?:#[^\n]*|[a-zA-Z_:][\w:]*(?:\{{{LABEL}(?:,{LABEL})*\}})? \S+)")


def is_good(name: str) -> bool:
    return bool(GOOD.fullmatch(name)) and name not in (".", "..")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def asked(name: str) -> list[tuple[Any, int]]:
    """A request with the name in each place that an attacker can write."""
    new = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=name[:1000])
    offsets = [OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
    return [
        (CreateTopicsRequest(topics=[new], timeout_ms=10_000), 7),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=[name]), 4),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4),
        (OffsetCommitRequest(group_id=name, topics=offsets), 9),
        (InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4),
    ]


def produce_as(connection: socket.socket, client_id: str) -> None:
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    body = encode_request_header(0, 9, 1, client_id) + b"".join(map(bytes, request.encode(9)))
    connection.sendall(len(body).to_bytes(4) + body)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
    assert len(connection.recv(size, socket.MSG_WAITALL)) == size


def refused(broker: BrokerProcess, name: str) -> bool:
    """Whether each request with it ends its connection."""
    found = []
    for request, version in asked(name):
        with socket.create_connection(("127.0.0.1", broker.port), WAIT_S) as connection:
            try:
                ask_on(connection, request, version)
            except ConnectionError:
                found.append(type(request).__name__)
    return len(found) == len(asked(name))


@pytest.fixture
def attacked(start_broker: StartBroker) -> tuple[BrokerProcess, int]:
    port = free_port()
    broker = start_broker(metrics_port=port, offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:  # so that client ids are labels
        everybody = quota_entity(client_id=None)
        assert admin.alter_client_quotas({everybody: {"producer_byte_rate": 1e12}}) == {everybody: None}
    for name in NAMES:
        if len(name) > NAME_MAX:
            assert refused(broker, name)
            continue
        with socket.create_connection(("127.0.0.1", broker.port), WAIT_S) as connection:
            created, *_ = [ask_on(connection, request, version) for request, version in asked(name)]
            (topic,) = created.topics
            expected = ErrorCode.NONE if is_good(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            assert topic.error_code == expected, name[:50]
            produce_as(connection, name)
    return broker, port


def test_names_are_no_paths_no_lines_and_no_labels_of_their_own(attacked: tuple[BrokerProcess, int]) -> None:
    broker, metrics_port = attacked
    made = {TOPIC, *INTERNAL, *filter(is_good, NAMES)}
    partitions = {
        path.name.rpartition("-")[0] for path in broker.log_dir.rglob("*") if path.is_dir() and path != broker.log_dir
    }
    assert partitions == made
    outside = {path.name for path in broker.directory.rglob("*") if not path.is_relative_to(broker.log_dir)}
    assert outside == {"broker.log"}
    lines = broker.log.splitlines()
    assert len(lines) > 5
    assert [line[:200] for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert "event=forged" not in {word for line in lines for word in line.split()}
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    assert 'clientId="' in text
    assert [line[:200] for line in text.splitlines() if line and not SAMPLE.fullmatch(line)] == []
    assert "\r" not in text
    assert "\0" not in text
    assert max(map(len, text.splitlines())) < 5000
