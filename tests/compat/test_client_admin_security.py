"""Our admin client on access rules, quotas and credentials."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    Admin,
    PatternType,
    QuotaEntity,
    ScramCredentialInfo,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    quota_entity,
)
from headwater.client.outcomes import all_or_raise, only


@pytest.fixture
def admin(broker_address: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker_address) as made:
        yield made


def test_access_rules_without_an_authorizer(admin: Admin) -> None:
    with pytest.raises(KafkaError) as refused:
        admin.describe_acls()
    assert refused.value.code == ErrorCode.SECURITY_DISABLED


def test_access_rules(broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str) -> None:
    broker = broker_factory(
        tmp_path,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    read = AclBinding(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
    deny = AclBinding(
        AclResourceType.GROUP,
        topic[:5],
        "User:bob",
        AclOperation.ALL,
        AclPermission.DENY,
        "10.0.0.1",
        PatternType.PREFIXED,
    )
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        wrong = read._replace(principal="alice")
        outcome = admin.create_acls([read, deny, wrong])
        assert (outcome[read], outcome[deny]) == (None, None)
        assert isinstance(outcome[wrong], KafkaError)
        until(lambda: admin.describe_acls() == sorted([read, deny]), admin.describe_acls)
        assert admin.describe_acls(AclFilter(AclResourceType.TOPIC)) == [read]
        matching = AclFilter(AclResourceType.GROUP, topic, pattern_type=PatternType.MATCH)
        assert admin.describe_acls(matching) == [deny]
        assert only(admin.delete_acls([AclFilter(principal="User:bob")])) == [deny]
        until(lambda: admin.describe_acls() == [read], admin.describe_acls)


def test_quotas(admin: Admin, topic: str) -> None:
    entity = quota_entity(user=topic, client_id=None)
    all_or_raise(admin.alter_client_quotas({entity: {"producer_byte_rate": 1024.0, "request_percentage": 50.0}}))
    wrong = admin.alter_client_quotas({entity: {"no_such_quota": 1.0}}, validate_only=True)
    assert isinstance(wrong[entity], KafkaError)

    def of_user() -> dict[QuotaEntity, dict[str, float]]:
        return admin.describe_client_quotas([("user", topic)])

    until(of_user, of_user)  # what the controller has decided reaches the broker a moment later
    (found,) = of_user().values()
    assert found == {"producer_byte_rate": 1024.0, "request_percentage": 50.0}
    assert admin.describe_client_quotas([("user", topic)], strict=True) == {}
    all_or_raise(admin.alter_client_quotas({entity: {"producer_byte_rate": None, "request_percentage": None}}))
    until(lambda: not of_user(), of_user)


def test_credentials(admin: Admin, topic: str) -> None:
    def described() -> list[ScramCredentialInfo] | KafkaError:
        return admin.describe_user_scram_credentials([topic])[topic]

    all_or_raise(admin.alter_user_scram_credentials([ScramUpsertion(topic, b"secret", ScramMechanism.SHA_256, 5000)]))
    assert only(admin.describe_user_scram_credentials([topic])) == [ScramCredentialInfo(ScramMechanism.SHA_256, 5000)]
    too_few = admin.alter_user_scram_credentials([ScramUpsertion(topic, b"secret", iterations=1)])
    assert isinstance(too_few[topic], KafkaError)
    all_or_raise(admin.alter_user_scram_credentials([ScramDeletion(topic, ScramMechanism.SHA_256)]))
    until(lambda: isinstance(described(), KafkaError), described)
    gone = described()
    assert isinstance(gone, KafkaError)
    assert gone.code == ErrorCode.RESOURCE_NOT_FOUND
