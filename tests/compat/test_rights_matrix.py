"""Principals x APIs x operations beside Apache Kafka: the same rules, users and requests, and the answers compared code
by code.

Apache's answers are in support/rights_of_apache.json; `make soak` asks Apache Kafka itself again, and compares. To
write the record anew: HEADWATER_RECORD=1 .venv/bin/pytest tests/compat/test_rights_matrix.py -m soak
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support.broker import ApacheBroker, HeadwaterBroker
from compat.support.rights_matrix import JAAS, PRINCIPALS, SETTINGS, SUPER, answers
from compat.support.rights_requests import apis_without_a_case, cases

RECORD = Path(__file__).parent / "support" / "rights_of_apache.json"
Answers = dict[str, dict[str, str]]

DIFFERENT: dict[str, tuple[str, set[tuple[str, str]]]] = {
    "produce with a transactional id": (
        "Apache Kafka looks at the batches: without a transactional one, the id needs no right. Here who names an id needs WRITE "
        "on it. No client sends such a request",
        {("(t (29))", "(t (53))"), ("(t (0))", "(t (53))")},
    ),
    "fetch as a follower": (
        "behind the rights: a broker that is no replica is told UNKNOWN_LEADER_EPOCH, so that it asks for metadata and comes "
        "again; Apache Kafka says NOT_LEADER_OR_FOLLOWER",
        {("0 ((6))", "0 ((75))")},
    ),
    "sync_group without a protocol": (
        "Apache Kafka looks at the form of the request before the rights (INCONSISTENT_GROUP_PROTOCOL), and so tells everybody "
        "the same. Here the rights come first",
        {("23", "25"), ("23", "30")},
    ),
    "txn_offset_commit": (
        "behind the rights: offsets of a topic that there is not are refused by Apache Kafka before it looks at the producer, "
        "here by the producer's error, if it has one",
        {("(t (49)) (t.gone (3))", "(t (49)) (t.gone (49))"), ("(t (29)) (t.gone (3))", "(t (29)) (t.gone (49))")},
    ),
}


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Answers]:
    broker = HeadwaterBroker(
        tmp_path,
        {
            **SETTINGS,
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.plain.allow.plaintext": "true",
        },
    )
    broker.start()
    try:
        yield answers(broker.bootstrap)
    finally:
        broker.kill()


def recorded() -> Answers:
    """The record has, by case and answer, who is told it."""
    by_case = json.loads(RECORD.read_text())
    return {
        case: {user: said for said, users in by_answer.items() for user in users.split()}
        for case, by_answer in by_case.items()
    }


def write_record(found: Answers) -> None:
    by_case: dict[str, dict[str, str]] = {}
    for case, by_user in found.items():
        of_case = by_case.setdefault(case, {})
        for user, said in by_user.items():
            of_case[said] = f"{of_case[said]} {user}" if said in of_case else user
    RECORD.write_text(json.dumps(by_case, indent=1) + "\n")


def differences(apache: Answers, other: Answers) -> dict[str, dict[tuple[str, str], list[str]]]:
    """By case: what Apache Kafka says, what the other says, and to whom."""
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for case, by_user in apache.items():
        for user, said in by_user.items():
            if other[case][user] != said:
                found.setdefault(case, {}).setdefault((said, other[case][user]), []).append(user)
    return found


def test_every_api_has_a_case() -> None:
    assert apis_without_a_case() == set()


def test_our_answers_are_apaches(ours: Answers) -> None:
    apache = recorded()
    assert ours.keys() == apache.keys() == {case.name for case in cases(bytes(16))}
    assert all(set(each) == {SUPER, *PRINCIPALS} for each in apache.values()), "the record is of other principals"
    found = differences(apache, ours)
    unnamed = {
        case: {pair: users for pair, users in by_pair.items() if pair not in DIFFERENT.get(case, ("", set()))[1]}
        for case, by_pair in found.items()
    }
    assert {case: pairs for case, pairs in unnamed.items() if pairs} == {}
    gone = {case: pairs - found.get(case, {}).keys() for case, (_, pairs) in DIFFERENT.items()}
    assert {case: pairs for case, pairs in gone.items() if pairs} == {}, "these differ no more: take them out"


def test_the_record_tells_principals_apart() -> None:
    """A record in which nobody is refused, or everybody, would compare nothing."""
    apache = recorded()
    open_to_all = {
        "api_versions",
        "create_delegation_token None",  # one's own
        "create_delegation_token renewed by a group",
        "renew_delegation_token",
        "expire_delegation_token",
        "describe_delegation_token",
    }
    for case, by_user in apache.items():
        if case not in open_to_all and case not in DIFFERENT and "unknown id" not in case and "by id" not in case:
            assert by_user["nobody"] != by_user[SUPER], case


@pytest.mark.soak(only=True)
@pytest.mark.timeout(600)
def test_the_record_is_what_apache_kafka_says(tmp_path: Path) -> None:
    broker = ApacheBroker(tmp_path, {})
    port, controller = broker.listen_at()
    broker.properties.update(
        {
            **SETTINGS,
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS.replace(
                "required ", f'required username="{SUPER}" password="{SUPER}-secret" '
            ),
        }
    )
    broker.start()
    try:
        found = answers(broker.bootstrap)
    finally:
        broker.kill()
    if os.environ.get("HEADWATER_RECORD") == "1":
        write_record(found)
    assert differences(recorded(), found) == {}
