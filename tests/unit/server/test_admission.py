"""Who may connect, by number, by address and by rate: time is passed in."""

from headwater.base.config.broker import BrokerConfig
from headwater.server.admission import Admission

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000


def admission(**properties: object) -> Admission:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    return Admission(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **given}), 0)


def accept_at(door: Admission, now_ns: int, listener: str = "PLAINTEXT") -> int:
    """How many of a storm come in at that moment."""
    count = 0
    while not door.pause_ms(listener, now_ns):
        door.accepted()
        count += 1
        assert count < 10_000
    return count


def test_connections_in_all_and_per_address_are_limited() -> None:
    door = admission(max_connections=3, max_connections_per_ip=2)
    assert door.refusal("10.0.0.1", 2) is None
    assert door.refusal("10.0.0.1", 3) == "too many connections"
    door.entered("10.0.0.1")
    door.entered("10.0.0.1")
    assert door.refusal("10.0.0.1", 2) == "too many connections from this address"
    assert door.refusal("10.0.0.2", 2) is None
    door.left("10.0.0.1")
    assert door.refusal("10.0.0.1", 1) is None


def test_an_address_may_have_a_limit_of_its_own() -> None:
    door = admission(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.1:2, 10.0.0.2:0,[::1]:1")
    door.entered("10.0.0.1")
    assert door.refusal("10.0.0.1", 1) is None
    door.entered("10.0.0.1")
    assert door.refusal("10.0.0.1", 2) is not None
    assert door.refusal("10.0.0.2", 2) is not None
    assert door.refusal("::1", 2) is None
    door.entered("::1")
    assert door.refusal("::1", 3) is not None


def test_a_storm_comes_in_no_faster_than_the_rate() -> None:
    door = admission(max_connection_creation_rate=20)
    assert accept_at(door, 0) == 20
    pause_ms = door.pause_ms("PLAINTEXT", 0)
    assert 50 <= pause_ms <= 51
    assert accept_at(door, pause_ms * MILLISECOND_NS) == 1
    assert sum(accept_at(door, now * 10 * MILLISECOND_NS) for now in range(6, 106)) == 20
    assert accept_at(door, 100 * SECOND_NS) == 20  # a second's worth, however long nobody came


def test_the_rate_leaves_the_listener_between_brokers_alone() -> None:
    door = admission(
        listeners="CLIENT://127.0.0.1:0,BROKERS://127.0.0.1:0",
        listener_security_protocol_map="CLIENT:PLAINTEXT,BROKERS:PLAINTEXT",
        inter_broker_listener_name="BROKERS",
        max_connection_creation_rate=1,
    )
    assert accept_at(door, 0, "CLIENT") == 1
    assert door.pause_ms("BROKERS", 0) == 0
    door.accepted()
    assert door.pause_ms("CLIENT", SECOND_NS // 2) > 0


def test_a_rate_of_zero_lets_nobody_in_and_is_looked_at_again() -> None:
    assert admission(max_connection_creation_rate=0).pause_ms("PLAINTEXT", 0) == 1000
