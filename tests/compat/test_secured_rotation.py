"""Certificates, passwords and rights that change under load: librdkafka's producer logs in anew all the time, and loses
nothing.
"""

import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.support.secured import PASSWORDS, SecuredCluster, secured_cluster
from headwater.client.admin.acls import AclBinding, AclFilter, AclOperation, AclResourceType, PatternType
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.client.outcomes import all_or_raise
from headwater.client.types import NewTopic

TOPIC = "orders"
ROUNDS = 3
REAUTHENTICATION_MS = 2000
PATIENCE_S = 120
pytestmark = pytest.mark.timeout(300)


def rule(name: str, operation: AclOperation, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(AclResourceType.TOPIC, name, "User:alice", operation, pattern_type=pattern)


RULES = {
    PatternType.LITERAL: [rule(TOPIC, AclOperation.READ), rule(TOPIC, AclOperation.WRITE)],
    PatternType.PREFIXED: [
        rule(TOPIC[:3], AclOperation.READ, PatternType.PREFIXED),
        rule(TOPIC[:3], AclOperation.WRITE, PatternType.PREFIXED),
    ],
}


class Writer:
    """Numbers in their order, until it is told to stop."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 1})
        self.failed: list[object] = []
        self.acknowledged = 0
        self.sent = 0
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stops.wait(0.002):
            self.producer.produce(TOPIC, str(self.sent).encode(), on_delivery=self._delivered)
            self.sent += 1
            self.producer.poll(0)

    def _delivered(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)

    def goes_on(self, more: int) -> None:
        """Returns when so many more were acknowledged."""
        wanted, give_up_at = self.acknowledged + more, time.monotonic() + PATIENCE_S
        while self.acknowledged < wanted:
            assert not self.failed, self.failed[:3]
            assert time.monotonic() < give_up_at, f"writing does not go on: {self.acknowledged} of {self.sent}"
            self._stops.wait(0.01)

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()


def login(cluster: SecuredCluster, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": cluster.authority,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": password,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
    }


def read(cluster: SecuredCluster, password: str, count: int) -> list[int]:
    """All from the start, by a client that connects only now."""
    consumer = Consumer({**login(cluster, password), "group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    try:
        while len(found) < count:
            for message in consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                found.append(int(message.value() or b"-1"))
    finally:
        consumer.close()
    return found


def test_certificates_users_and_rights_change_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    settings = {"connections.max.reauth.ms": str(REAUTHENTICATION_MS)}
    readers = AclBinding(AclResourceType.GROUP, "readers", "User:alice", AclOperation.READ)
    rules = [*RULES[PatternType.LITERAL], readers]
    with secured_cluster(tmp_path, rules, settings) as cluster, cluster.admin() as admin:
        all_or_raise(admin.create_topics([NewTopic(TOPIC, 1, 1)]))
        writer = Writer(login(cluster, PASSWORDS["alice"]))
        try:
            for number in range(ROUNDS):
                writer.goes_on(200)
                path = cluster.certificates.pem("broker")  # the same as before: another key, and another certificate
                password = f"{PASSWORDS['alice']}-{number}"
                changed = [ScramUpsertion("alice", password.encode(), ScramMechanism.SHA_512)]
                assert admin.alter_user_scram_credentials(changed) == {"alice": None}
                writer.producer.set_sasl_credentials("alice", password)
                new, old = list(RULES)[:: -1 if number % 2 == 0 else 1]
                assert set(admin.create_acls(RULES[new]).values()) == {None}
                (gone,) = admin.delete_acls([AclFilter(AclResourceType.TOPIC, pattern_type=old)]).values()
                assert isinstance(gone, list)
                assert len(gone) == len(RULES[old])
                writer.goes_on(200)
                shown = ssl.get_server_certificate(("127.0.0.1", cluster.broker.port))
                assert shown.strip() in Path(path).read_text()
                seen = read(cluster, password, 100)
                assert seen[:100] == list(range(100))
        finally:
            writer.stop()
        assert writer.producer.flush(60) == 0
        assert (writer.failed, writer.acknowledged) == ([], writer.sent)
        assert read(cluster, password, writer.sent) == list(range(writer.sent))
