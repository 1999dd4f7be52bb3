"""What the metrics and the audit topic tell of logins and of quotas, at a broker with real sockets."""

import json
from collections.abc import Callable

import pytest

from headwater.broker.quotas.client_quotas import ClientQuotas
from headwater.broker.quotas.meter import Meter
from headwater.metadata.image import UserConfigured
from headwater.records.reader import read_batches, read_records
from headwater.server.exposition import prometheus_text
from headwater.server.exposition_security import label, quota_lines
from headwater.server.node import Node
from unit.server.security.test_login_gate import ALICE, CANARY, JAAS, Visitor

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.plain.allow.plaintext": "true",
    "sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "0",
    "headwater.audit.topic": "audit",
}
WAIT_MS = 60_000


def figures(node: Node) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in prometheus_text(node).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def audited(node: Node) -> list[dict[str, str]]:
    log = node.broker.partition("audit", 0).log
    piece = log.read(0, 1 << 20, log.log_end_offset, min_one_batch=True)
    assert piece is not None
    data = piece.read()
    piece.release()
    found = []
    for at, header in read_batches(data):
        found += [json.loads(each.value or b"") for each in read_records(data[at : at + header.size_bytes], 1 << 20)]
    return found


def test_logins_are_counted_and_told(make_node: Callable[..., Node]) -> None:
    node = make_node(**SETTINGS)
    for token in (ALICE, b"\0alice\0wrong-" + CANARY.encode(), ALICE):
        visitor = Visitor(node)
        visitor.handshake()
        visitor.authenticate(token)
        visitor.socket.close()
    metrics = "kafka_server_socket_server_metrics_"
    told = figures(node)
    assert told[f'{metrics}successful_authentication_total{{listener="SASL_PLAINTEXT"}}'] == 2
    assert told[f'{metrics}failed_authentication_total{{listener="SASL_PLAINTEXT"}}'] == 1
    assert node.loop.run_until(lambda: node.broker.audit.written == 3, WAIT_MS)
    events = audited(node)
    assert [(event["event"], event["principal"], event["mechanism"]) for event in events] == [
        ("login", "User:alice", "PLAIN"),
        ("login-failed", "User:ANONYMOUS", "PLAIN"),
        ("login", "User:alice", "PLAIN"),
    ]
    assert events[1]["reason"] == "the user or the password is wrong"
    assert CANARY not in json.dumps(events)
    assert CANARY not in prometheus_text(node)
    assert figures(node)["headwater_audit_events_written_total"] == 3


def test_strangers_do_not_fill_the_audit_topic(make_node: Callable[..., Node]) -> None:
    """At most so many failed logins a second, and the next one that is told says how many were not."""
    node = make_node(**SETTINGS)
    security = node.server.securities["SASL_PLAINTEXT"]
    monotonic_ns = 10**18  # later than any turn of the loop: the limit's second does not end by itself
    security._failed_lines._since_ns = monotonic_ns
    security._failed_lines._left = 2

    def fail() -> None:
        visitor = Visitor(node)
        visitor.handshake()
        visitor.authenticate(b"\0alice\0wrong")
        visitor.socket.close()

    for _ in range(5):
        fail()
    security._failed_lines._left = 1
    fail()
    assert security.counts.failed == 6
    assert node.loop.run_until(lambda: node.broker.audit.written == 3, WAIT_MS)
    assert [event.get("unsaid") for event in audited(node)] == [None, None, 3]


@pytest.mark.parametrize("name", ['al"ice', "new\nline", "back\\slash", "nul\0", "\ud800", "x" * 5000])
def test_labels_are_one_line_whatever_clients_are_called(name: str) -> None:
    shown = label(name)
    assert shown.isprintable()
    assert len(shown) < 2000
    assert '"' not in shown.replace('\\"', "")
    shown.encode()


def test_throttle_times_have_the_names_that_dashboards_know(make_node: Callable[..., Node]) -> None:
    node = make_node()
    broker = node.broker
    broker.image.apply(UserConfigured("alice", {"producer_byte_rate": "1000", "consumer_byte_rate": "1000"}))
    quotas = ClientQuotas(broker.image, broker.config, lambda: 0)
    meter = Meter(quotas, "User:alice")
    assert list(quota_lines(None, 0)) == []
    meter.record(0, "loader", 20_000, 0, 1000)
    throttle_ms = meter.throttle_ms(0, "loader", 1000)
    assert throttle_ms > 0
    lines = list(quota_lines(quotas, 1000))
    whose = '{resource="Produce",user="alice",clientId=""}'
    assert f"kafka_server_quota_throttle_time{whose} {throttle_ms:.3f}" in lines
    assert f"headwater_quota_throttle_seconds_total{whose} {throttle_ms / 1000}" in lines
    assert f"kafka_server_quota_byte_rate{whose} 2000.000" in lines
    assert not any("Fetch" in line and "throttle" in line for line in lines)
    (rate,) = (used for whose, used in quotas.used() if whose.quota == "producer_byte_rate")
    assert rate.throttles is not None
    rate.throttles.record(0, 2000)
    assert rate.throttles.average_ms(2000) == throttle_ms / 2
    assert rate.throttles.average_ms(600_000) == 0, "what was long ago does not count"
