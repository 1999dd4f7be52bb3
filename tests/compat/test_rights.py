"""Users who log in, and an authorizer: what others' clients may do, and what they hear when they may not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from compat.support.broker import BrokerProcess, HeadwaterBroker
from headwater.base.errors import ErrorCode
from headwater.base.errors import KafkaError as HeadwaterError
from headwater.cli.kafka import acls
from headwater.client import Admin

USERS = ("admin", "writer", "reader", "nobody")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="{user}-secret"' for user in USERS
)
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    started = HeadwaterBroker(
        tmp_path_factory.mktemp("rights"),
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.plain.allow.plaintext": "true",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS + ";",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        },
    )
    started.start()
    yield started
    started.stop()


def settings(broker: BrokerProcess, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def allow(broker: BrokerProcess, user: str, operation: Any, kind: Any, name: str, *, deny: bool = False) -> None:
    admin = AdminClient(settings(broker, "admin"))
    rule = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
    )
    for made in admin.create_acls([rule]).values():
        made.result(TIMEOUT_S)


def sent(broker: BrokerProcess, user: str, topic: str) -> KafkaError | None:
    """What a record of that user's came to."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({**settings(broker, user), "enable.idempotence": False})
    producer.produce(topic, b"value", on_delivery=lambda error, _message: outcomes.append(error))
    producer.flush(TIMEOUT_S)
    (outcome,) = outcomes
    return outcome


def first(broker: BrokerProcess, user: str, topic: str, group: str) -> Any:
    consumer = Consumer({**settings(broker, user), "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        return message.error() or message.value()
    finally:
        consumer.close()


@pytest.fixture
def orders(broker: BrokerProcess, topic: str) -> str:
    admin = AdminClient(settings(broker, "admin"))
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(TIMEOUT_S)
    return topic


def test_librdkafka_writes_and_reads_with_rights_and_hears_that_it_may_not_without(
    broker: BrokerProcess, orders: str
) -> None:
    refused = sent(broker, "writer", orders)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(broker, "writer", AclOperation.WRITE, ResourceType.TOPIC, orders)
    assert sent(broker, "writer", orders) is None
    allow(broker, "reader", AclOperation.READ, ResourceType.TOPIC, orders)
    assert first(broker, "reader", orders, orders).code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(broker, "reader", AclOperation.READ, ResourceType.GROUP, orders)
    assert first(broker, "reader", orders, orders) == b"value"
    allow(broker, "reader", AclOperation.READ, ResourceType.TOPIC, orders, deny=True)
    denied = first(broker, "reader", orders, f"{orders}-2")
    assert denied.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def test_who_may_nothing_sees_nothing_and_changes_nothing(broker: BrokerProcess, orders: str) -> None:
    admin = AdminClient(settings(broker, "nobody"))
    assert admin.list_topics(timeout=TIMEOUT_S).topics == {}
    for made in admin.create_topics([NewTopic(f"{orders}-mine", 1)]).values():
        with pytest.raises(KafkaException) as refused:
            made.result(TIMEOUT_S)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(everything).result(TIMEOUT_S) == []  # librdkafka keeps the error for itself
    ours = {name: value for name, value in settings(broker, "nobody").items() if name != "bootstrap.servers"}
    with Admin(
        bootstrap_servers=broker.bootstrap, **{name.replace(".", "_"): value for name, value in ours.items()}
    ) as mine:
        with pytest.raises(HeadwaterError) as hidden:
            mine.describe_acls()
        assert hidden.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_rights_of_kafka_python(broker: BrokerProcess, orders: str) -> None:
    def producer(user: str) -> KafkaProducer:
        return KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=f"{user}-secret",
            enable_idempotence=False,
        )

    nobody = producer("nobody")
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            nobody.send(orders, b"x").get(TIMEOUT_S)
    finally:
        nobody.close()
    admin = producer("admin")
    try:
        assert admin.send(orders, b"x").get(TIMEOUT_S).offset == 0
    finally:
        admin.close()


def test_the_log_tells_who_was_denied_what(broker: BrokerProcess, orders: str) -> None:
    sent(broker, "nobody", orders)
    denials = [line for line in broker.log.splitlines() if "event=denied" in line and orders in line]
    assert any("User:nobody" in line and "DESCRIBE" in line for line in denials), denials
    assert "nobody-secret" not in broker.log


def test_kafka_acls_adds_lists_and_removes_rules(
    broker: BrokerProcess, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = tmp_path / "admin.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="admin" password="admin-secret";\n'
    )
    common = ["--bootstrap-server", broker.bootstrap, "--command-config", str(login)]
    who = ["--allow-principal", "User:writer", "--topic", orders]
    assert acls.script([*common, "--add", "--producer", *who]) == 0
    told = capsys.readouterr().out
    resource = f"`ResourcePattern(resourceType=TOPIC, name={orders}, patternType=LITERAL)`: "
    assert f"Adding ACLs for resource {resource}" in told
    assert f"Current ACLs for resource {resource}" in told
    assert "(principal=User:writer, host=*, operation=WRITE, permissionType=ALLOW)" in told
    assert sent(broker, "writer", orders) is None
    assert acls.script([*common, "--remove", "--force", "--topic", orders]) == 0
    assert "Current ACLs" not in capsys.readouterr().out
    assert sent(broker, "writer", orders) is not None
    assert (
        acls.script([*common, "--add", "--allow-principal", "User:writer", "--topic", orders, "--operation", "Dance"])
        == 1
    )
    assert "Invalid operation Dance" in capsys.readouterr().err
