"""Which quota holds, and who shares it: Apache Kafka's order, tried by taking away the first that holds, again and
again.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.broker.quotas.client_quotas import ClientQuotas
from headwater.broker.quotas.entities import FETCH, PRODUCE, Entity, entity_configured
from headwater.broker.quotas.meter import Meter
from headwater.broker.quotas.precedence import ApplicableQuota, applicable_quota
from headwater.metadata.image import AddressConfigured, ClientConfigured, ClusterImage, UserConfigured

IN_ORDER = [
    (Entity("alice", "app"), ("alice", "app")),
    (Entity("alice", ""), ("alice", "app")),
    (Entity("alice"), ("alice", None)),
    (Entity("", "app"), ("alice", "app")),
    (Entity("", ""), ("alice", "app")),
    (Entity(""), ("alice", None)),
    (Entity(None, "app"), (None, "app")),
    (Entity(None, ""), (None, "app")),
]


def test_the_most_specific_one_holds() -> None:
    table = {entity: {PRODUCE: float(at)} for at, (entity, _) in enumerate(IN_ORDER)}
    for at, (entity, scope) in enumerate(IN_ORDER):
        assert applicable_quota(table, PRODUCE, "alice", "app") == ApplicableQuota(
            float(at), *scope, entity.client_id == ""
        )
        del table[entity]
    assert applicable_quota(table, PRODUCE, "alice", "app") is None


def test_one_that_says_nothing_of_the_key_does_not_hold() -> None:
    table = {Entity("alice", "app"): {FETCH: 1.0}, Entity(None, ""): {PRODUCE: 2.0}}
    assert applicable_quota(table, PRODUCE, "alice", "app") == ApplicableQuota(2.0, None, "app", True)


def test_others_quotas_do_not_hold() -> None:
    table = {Entity("bob"): {PRODUCE: 1.0}, Entity(None, "other"): {PRODUCE: 1.0}, Entity("alice", "x"): {PRODUCE: 1.0}}
    assert applicable_quota(table, PRODUCE, "alice", "app") is None


@pytest.fixture
def quotas() -> Any:
    image = ClusterImage("c")
    clock = SimpleNamespace(now_ms=0)
    made = ClientQuotas(image, BrokerConfig({}), lambda: clock.now_ms)

    def change(*changes: Any) -> None:
        for each in changes:
            image.apply(each)
        made.follow(entity_configured(each) for each in changes)

    return SimpleNamespace(change=change, of=made, clock=clock)


def test_a_default_is_meant_for_each_and_a_user_s_quota_for_all_of_its_clients(quotas: Any) -> None:
    quotas.change(UserConfigured("", {PRODUCE: "10"}))
    alice, same, bob = (quotas.of.limits(*who).produce for who in (("alice", "a"), ("alice", "b"), ("bob", "a")))
    assert alice.used is same.used
    assert alice.used is not bob.used
    quotas.change(UserConfigured("", {}), ClientConfigured(None, "a", {PRODUCE: "10"}))
    assert quotas.of.limits("alice", "a").produce.used is quotas.of.limits("bob", "a").produce.used
    assert quotas.of.limits("alice", "b") is None


def test_a_changed_bound_goes_on_with_what_was_used(quotas: Any) -> None:
    quotas.change(UserConfigured("alice", {PRODUCE: "1000"}))
    quotas.of.limits("alice", "a").produce.used.record(20_000, 0)
    quotas.change(UserConfigured("alice", {PRODUCE: "4000"}))
    assert quotas.of.limits("alice", "a").produce.throttle_ms(0) == 0
    quotas.change(UserConfigured("alice", {PRODUCE: "500"}))
    assert quotas.of.limits("alice", "a").produce.throttle_ms(0) == 30_000


def test_whether_anybody_is_concerned(quotas: Any) -> None:
    quotas.change(UserConfigured("alice", {"SCRAM-SHA-256": "secret"}))
    assert (quotas.of.concerns_clients, quotas.of.concerns_addresses) == (False, False)
    quotas.change(AddressConfigured("", {"connection_creation_rate": "1"}))
    assert (quotas.of.concerns_clients, quotas.of.concerns_addresses) == (False, True)
    quotas.change(ClientConfigured("", "", {FETCH: "1"}))
    assert quotas.of.concerns_clients


def test_client_ids_that_are_made_up_do_not_fill_the_memory(quotas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.broker.quotas.client_quotas._RATES_MAX", 5)
    quotas.change(ClientConfigured(None, "", {PRODUCE: "10"}))
    for number in range(100):
        quotas.of.limits("u", f"{'x' * 300}{number}").produce.used.record(1, 0)
        quotas.of.limits("u", str(number)).produce.used.record(1, 0)
    kept = quotas.of._rates_of_made_up._kept
    assert len(kept) == 5
    assert all(len(client or "") <= 255 for _, _, client in kept)


def test_a_busy_client_is_not_forgotten_because_others_make_up_client_ids(
    quotas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A meter remembers its rate, so that nobody looked it up, and the next connection of the same client began with a
    fresh one.
    """
    monkeypatch.setattr("headwater.broker.quotas.client_quotas._RATES_MAX", 5)
    quotas.change(ClientConfigured("alice", "", {PRODUCE: "10"}), UserConfigured("bob", {PRODUCE: "10"}))
    quotas.change(ClientConfigured("bob", "", {FETCH: "10"}))
    busy, bob = quotas.of.limits("alice", "busy").produce.used, quotas.of.limits("bob", "b").produce.used
    busy.record(1000, 0)
    for number in range(20):
        quotas.of.limits("alice", f"made up {number}").produce.used.record(1, 0)
    assert quotas.of.limits("alice", "busy").produce.used is busy
    assert quotas.of.limits("bob", "b").produce.used is bob, "users are no client ids"
    shared = quotas.of.limits("alice", "new").produce.used
    assert shared is quotas.of.limits("alice", "newer").produce.used
    assert quotas.of.limits("bob", "new").fetch.used is not shared, "one user's made-up ids do not touch another"


def test_rates_that_are_idle_make_room_and_nobody_goes_on_with_them(
    quotas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.broker.quotas.client_quotas._RATES_MAX", 2)
    quotas.change(ClientConfigured(None, "", {PRODUCE: "10"}))
    meter = Meter(quotas.of, "User:u")
    dropped = meter.limits("old").produce.used
    dropped.record(1, 0)
    quotas.of.limits("u", "busy").produce.used.record(1, 8000)
    assert meter.limits("late") is not None
    quotas.clock.now_ms = 11_000
    assert meter.limits("new").produce.used is not meter.limits("late").produce.used
    quotas.clock.now_ms = 30_000
    quotas.of.limits("u", "newer")
    assert meter.limits("old").produce.used is quotas.of.limits("u", "old").produce.used is not dropped


def test_a_meter_does_not_remember_long_client_ids(quotas: Any) -> None:
    quotas.change(ClientConfigured(None, "", {PRODUCE: "10"}))
    meter = Meter(quotas.of, "User:u")
    for number in range(10):
        assert meter.limits(f"{'x' * 30_000}{number}").produce.used is meter.limits("x" * 256).produce.used
    assert meter._limits == {}


def test_what_is_no_quota_changes_nothing_for_those_who_remember_limits(quotas: Any) -> None:
    quotas.change(UserConfigured("alice", {PRODUCE: "10"}))
    before = quotas.of.generation
    quotas.change(UserConfigured("alice", {PRODUCE: "10", "SCRAM-SHA-256": "x"}), UserConfigured("bob", {"SCRAM": "x"}))
    assert quotas.of.generation == before
    quotas.change(UserConfigured("alice", {"SCRAM-SHA-256": "x"}))
    assert (quotas.of.generation, quotas.of.concerns_clients) == (before + 1, False)


@pytest.mark.parametrize(
    ("written", "met"),
    [("0:0:0:0:0:0:0:1", "::1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("FE80::1", "fe80::1%eth0")],
)
def test_addresses_that_were_written_in_another_way(quotas: Any, written: str, met: str) -> None:
    quotas.change(AddressConfigured(written, {"connection_creation_rate": "1"}))
    assert [quotas.of.connection_throttle_ms(met, 0) for _ in range(11)] == [0] * 10 + [1000]
    quotas.change(AddressConfigured(written, {}))
    assert not quotas.of.concerns_addresses


def test_connections_of_one_address(quotas: Any) -> None:
    quotas.change(
        AddressConfigured("", {"connection_creation_rate": "2"}),
        AddressConfigured("::1", {"connection_creation_rate": "1"}),
    )
    waits = [quotas.of.connection_throttle_ms("10.0.0.1", 0) for _ in range(22)]
    assert waits == [0] * 20 + [500, 500], "those that are refused do not count, or nobody would get in again"
    assert quotas.of.connection_throttle_ms("10.0.0.2", 0) == 0
    assert [quotas.of.connection_throttle_ms("::1", 0) for _ in range(11)] == [0] * 10 + [1000]
