"""Delegation tokens are not there: who is told so, who has to log in first, and who may not ask for another's.

Expected answers are those of Apache Kafka 4.3 without `delegation.token.secret.key`, seen by hand;
`tests/compat/test_rights_matrix.py` compares them for many principals.
"""

from typing import Any

import pytest

from headwater.base.acls import Operation, ResourceType
from headwater.base.errors import ErrorCode
from headwater.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headwater.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from headwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from unit.broker.rights.rights_support import AUTHORIZER, allow, ask

DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NOT_YOURS = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
LISTENERS = "PLAINTEXT://:0,SSL://:0,SASL_PLAINTEXT://:0,INSIDE://:0"
MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:SASL_SSL"


def create(owner: str = "", kind: str | None = "User", renewers: list[CreatableRenewers] | None = None) -> Any:
    return CreateDelegationTokenRequest(
        owner_principal_type=kind if owner else None,
        owner_principal_name=owner or None,
        renewers=renewers or [],
        max_lifetime_ms=-1,
    )


REQUESTS = [
    create(),
    RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=1000),
    ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1),
    DescribeDelegationTokenRequest(owners=None),
    DescribeDelegationTokenRequest(owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")]),
]


@pytest.fixture(name="lab", params=["with rules", "without"])
def lab_with_listeners(make_lab: Any, request: Any) -> Any:
    rules = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin"} if request.param == "with rules" else {}
    return make_lab(
        listeners=LISTENERS,
        listener_security_protocol_map=MAP,
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        **rules,
    )


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("listener", "principal", "expected"),
    [
        ("PLAINTEXT", "User:ANONYMOUS", NOT_ALLOWED),
        ("SSL", "User:ANONYMOUS", NOT_ALLOWED),
        ("SSL", "User:CN=alice", DISABLED),
        ("SASL_PLAINTEXT", "User:alice", DISABLED),
        ("INSIDE", "User:alice", DISABLED),
    ],
)
def test_who_has_a_login_is_told_that_there_are_no_tokens(
    lab: Any, request_: Any, listener: str, principal: str, expected: int
) -> None:
    for version in range(type(request_).VERSIONS[0], type(request_).VERSIONS[1] + 1):
        answer = ask(lab, principal, request_, version, listener=listener)
        assert answer.error_code == expected
        assert getattr(answer, "tokens", []) == []
        assert getattr(answer, "expiry_timestamp_ms", 0) in (0 if expected == DISABLED else -1, 0)


def test_the_answer_names_owner_and_requester(lab: Any) -> None:
    own = ask(lab, "User:alice", create(), listener="INSIDE")
    assert (own.principal_type, own.principal_name) == ("User", "alice")
    assert (own.token_requester_principal_type, own.token_requester_principal_name) == ("User", "alice")
    others = ask(lab, "User:admin", create("bob"), listener="INSIDE")
    assert (others.principal_name, others.token_requester_principal_name) == ("bob", "admin")
    assert (others.token_id, others.hmac) == ("", b"")


def test_renewers_that_are_no_users_are_refused_first(lab: Any) -> None:
    group = [CreatableRenewers(principal_type="Group", principal_name="g")]
    answer = ask(lab, "User:alice", create(renewers=group), listener="INSIDE")
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)
    anonymous = ask(lab, "User:ANONYMOUS", create(renewers=group))
    assert anonymous.error_code == NOT_ALLOWED


def test_tokens_of_another_need_a_right_on_that_user(make_lab: Any) -> None:
    lab = make_lab(
        listeners=LISTENERS,
        listener_security_protocol_map=MAP,
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        authorizer_class_name=AUTHORIZER,
        super_users="User:admin",
    )

    def code(principal: str, owner: str, listener: str = "INSIDE") -> int:
        found: int = ask(lab, principal, create(owner), listener=listener).error_code
        return found

    assert code("User:alice", "bob") == NOT_YOURS
    assert code("User:alice", "alice") == DISABLED
    assert code("User:admin", "bob") == DISABLED
    assert code("User:ANONYMOUS", "bob", "PLAINTEXT") == NOT_ALLOWED  # rather than that it may not
    allow(lab, "User:alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    assert code("User:alice", "bob") == DISABLED
    assert code("User:alice", "carol") == NOT_YOURS
