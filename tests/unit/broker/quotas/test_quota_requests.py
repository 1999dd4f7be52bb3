"""AlterClientQuotas and DescribeClientQuotas: what is kept, what is refused, what a filter means."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.quotas.entities import quotas_in
from headwater.metadata.image import UserConfigured
from headwater.wire.messages import alter_client_quotas as alter
from headwater.wire.messages import describe_client_quotas as describe

EXACT, DEFAULT, ANY = 0, 1, 2
Parts = tuple[tuple[str, str | None], ...]

ALICE: Parts = (("user", "alice"),)
ALICE_C: Parts = (("user", "alice"), ("client-id", "c"))
OTHERS: Parts = (("user", None),)
CLIENT: Parts = (("client-id", "c"),)
ADDRESS: Parts = (("ip", "10.0.0.1"),)


def set_quotas(lab: Any, *entries: tuple[Parts, dict[str, float | None]], version: int = 1, **more: Any) -> list[Any]:
    request = alter.AlterClientQuotasRequest(
        entries=[
            alter.EntryData(
                entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                ops=[alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
            )
            for parts, ops in entries
        ],
        validate_only=more.get("validate_only", False),
    )
    return [(entry.error_code, entry.error_message) for entry in lab.ask(request, version).entries]


def quotas(lab: Any, *wanted: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> dict[Parts, Any]:
    request = describe.DescribeClientQuotasRequest(
        components=[describe.ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in wanted], strict=strict
    )
    answer = lab.ask(request, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


OK = (0, None)


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_set_is_told_and_outlives_a_restart(lab: Any, version: int) -> None:
    every = [
        (ALICE, {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
        (ALICE_C, {"consumer_byte_rate": 5.0}),
        (OTHERS, {"controller_mutation_rate": 0.5}),
        (CLIENT, {"producer_byte_rate": 7.0}),
        (ADDRESS, {"connection_creation_rate": 3.0}),
    ]
    assert set_quotas(lab, *every, version=version) == [OK] * 5
    assert quotas(lab, version=version) == dict(every)
    assert quotas(lab.restarted()) == dict(every)
    assert lab.broker.image.user_configs["alice"] == {"producer_byte_rate": "1024", "request_percentage": "12.5"}


def test_a_quota_is_taken_away_and_what_stands_beside_it_stays(lab: Any) -> None:
    lab.broker.image.apply(UserConfigured("alice", {"SCRAM-SHA-256": "secret"}))
    set_quotas(lab, (ALICE, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}))
    assert set_quotas(lab, (ALICE, {"producer_byte_rate": None, "SCRAM-SHA-256": None})) == [OK]
    assert quotas(lab) == {ALICE: {"consumer_byte_rate": 2.0}}
    assert set_quotas(lab, (ALICE, {"consumer_byte_rate": None})) == [OK]
    assert quotas(lab) == {}
    assert lab.broker.image.user_configs["alice"] == {"SCRAM-SHA-256": "secret"}


@pytest.mark.parametrize(
    ("parts", "ops", "message"),
    [
        ((), {}, "Invalid empty client quota entity"),
        ((("group", "g"),), {}, "Unhandled client quota entity type: group"),
        ((("user", "a"), ("user", "b")), {}, "Invalid client quota entity, duplicate entity entry user"),
        ((("user", ""),), {}, "Empty user not supported"),
        ((("user", "a\0"),), {}, "The name of a user has at most 1000 characters, and no NUL"),
        ((("client-id", "a" * 1001),), {}, "The name of a client-id has at most 1000 characters, and no NUL"),
        (
            (("ip", "10.0.0.1"), ("user", "a")),
            {},
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        ((("ip", "nowhere/.."),), {}, "nowhere/.. is not a valid IP or resolvable host."),
        ((("ip", "fe80::1%eth0"),), {}, "fe80::1%eth0 is not a valid IP or resolvable host."),
        (ALICE, {"producer_byte_rate": 5e-7}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"no_such_quota": 1.0}, "Invalid configuration key no_such_quota"),
        (ALICE, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        (ADDRESS, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        (ALICE, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"request_percentage": float("nan")}, "Quota request_percentage must be greater than 0"),
        (ALICE, {"request_percentage": float("inf")}, "Quota request_percentage must be greater than 0"),
        (ALICE, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (ALICE, {"producer_byte_rate": 1e19}, "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            ADDRESS,
            {"connection_creation_rate": 1e10},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_done(lab: Any, parts: Parts, ops: Any, message: str) -> None:
    outcomes = set_quotas(lab, (parts, ops), (CLIENT, {"producer_byte_rate": 7.0}))
    assert outcomes == [(int(ErrorCode.INVALID_REQUEST), message), OK]
    assert quotas(lab) == {CLIENT: {"producer_byte_rate": 7.0}}


def test_an_entity_or_a_key_that_stands_there_twice_is_refused(lab: Any) -> None:
    first, second = set_quotas(lab, (ALICE, {"producer_byte_rate": 1.0}), (ALICE, {"producer_byte_rate": 2.0}))
    assert first == OK
    assert second[0] == ErrorCode.INVALID_REQUEST
    assert quotas(lab) == {ALICE: {"producer_byte_rate": 1.0}}
    op = alter.OpData(key="producer_byte_rate", value=5.0, remove=False)
    entity = [alter.EntityData(entity_type="user", entity_name="bob")]
    request = alter.AlterClientQuotasRequest(entries=[alter.EntryData(entity=entity, ops=[op, op])])
    (result,) = lab.ask(request).entries
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("value", "kept"), [(9223372036854775807.0, "9223372036854775807"), (9.9999999, "10"), (10.0000001, "10")]
)
def test_what_is_nearly_whole_is_whole(lab: Any, value: float, kept: str) -> None:
    assert set_quotas(lab, (ALICE, {"producer_byte_rate": value})) == [OK]
    assert lab.broker.image.user_configs["alice"] == {"producer_byte_rate": kept}


def test_to_validate_changes_nothing(lab: Any) -> None:
    assert set_quotas(lab, (ALICE, {"producer_byte_rate": 1.0}), validate_only=True) == [OK]
    assert quotas(lab) == {}


def test_a_filter_means_by_name_by_default_and_any(lab: Any) -> None:
    for parts in (ALICE, ALICE_C, OTHERS, CLIENT):
        set_quotas(lab, (parts, {"producer_byte_rate": 1.0}))
    set_quotas(lab, (ADDRESS, {"connection_creation_rate": 1.0}))

    def meant(*wanted: tuple[str, int, str | None], strict: bool = False) -> set[Parts]:
        return set(quotas(lab, *wanted, strict=strict))

    assert meant(("user", EXACT, "alice")) == {ALICE, ALICE_C}
    assert meant(("user", EXACT, "alice"), strict=True) == {ALICE}
    assert meant(("user", DEFAULT, None)) == {OTHERS}
    assert meant(("user", ANY, None)) == {ALICE, ALICE_C, OTHERS}
    assert meant(("user", ANY, None), ("client-id", ANY, None)) == {ALICE_C}
    assert meant(("client-id", EXACT, "c")) == {ALICE_C, CLIENT}
    assert meant(("client-id", EXACT, "c"), strict=True) == {CLIENT}
    assert meant(("ip", ANY, None)) == {ADDRESS}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_means_nothing_is_refused(lab: Any, wanted: Any, code: ErrorCode) -> None:
    components = [describe.ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in wanted]
    answer = lab.ask(describe.DescribeClientQuotasRequest(components=components, strict=False))
    assert (answer.error_code, answer.entries) == (int(code), None)
    assert answer.error_message


def test_what_somebody_wrote_by_hand_and_is_no_quota_is_left_out() -> None:
    config = {"producer_byte_rate": "many", "consumer_byte_rate": "5", "request_percentage": "-1", "other": "1"}
    assert quotas_in(config) == {"consumer_byte_rate": 5.0}


def test_addresses_are_kept_as_connections_have_them(lab: Any) -> None:
    set_quotas(lab, ((("ip", "0:0:0:0:0:0:0:1"),), {"connection_creation_rate": 1.0}))
    assert lab.broker.image.address_configs == {"::1": {"connection_creation_rate": "1"}}
