"""What workers tell each other: when they join, by signed calls, and by calls that are handed on;
and their properties.
"""

from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from headwater.base.errors import UserError
from headwater.connect.config.distributed import distributed_config, says_enabled, topic_settings
from headwater.connect.connector_config.validation import Delivery, validate
from headwater.connect.distributed.config_records import SessionKey
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.group_protocol import Assignment, MemberState
from headwater.connect.distributed.peers import HMAC_SHA256, SIGNATURE, is_signed, new_session_key, sign
from headwater.connect.distributed.signature_check import SignatureCheck
from headwater.connect.distributed.transactional_worker import transactional_id
from headwater.connect.plugins import Catalog
from headwater.connect.rest.forwarding import with_hop
from headwater.connect.runtime.config_checks import wrong_offsets_topic
from headwater.connect.runtime.refusals import Forbidden
from headwater.connect.runtime.task import TaskId

TASKS = frozenset({TaskId("a-b", -1), TaskId("a-b", 3)})


def test_what_members_say_is_read_as_it_was_written() -> None:
    member = MemberState("http://w:1/", TASKS)
    assert MemberState.decode(member.encode()) == member
    given = Assignment("m", "http://w:1/", TASKS, frozenset({TaskId("c", 0)}), True, 7)
    assert Assignment.decode(given.encode()) == given


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"{}", b'{"url":"x","held":5}', b'{"url":"x","held":[5]}', b"\xff"])
def test_what_no_member_says_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        MemberState.decode(data)
    with pytest.raises(ValueError):
        Assignment.decode(data)


def test_a_signature_is_of_this_body_with_this_key() -> None:
    key, other = new_session_key(1), new_session_key(1)
    signature = sign(key, b"body")[SIGNATURE]
    assert is_signed(key, b"body", signature, HMAC_SHA256)
    assert not is_signed(key, b"another", signature, HMAC_SHA256)
    assert not is_signed(other, b"body", signature, HMAC_SHA256)
    assert not is_signed(key, b"body", signature, "HmacMD5")
    assert not is_signed(key, b"body", "ünsigned", HMAC_SHA256)


def test_calls_that_nobody_signed_do_not_make_a_worker_read_the_topic() -> None:
    key = new_session_key(1)

    class Configs:
        reads = 0

        def snapshot(self) -> ConfigState:
            return ConfigState(session_key=key if self.reads else None)

        def refreshed(self) -> ConfigState:
            self.reads += 1
            return self.snapshot()

    def signatures(leads: bool) -> tuple[SignatureCheck, Configs]:
        configs = Configs()
        return SignatureCheck(cast("Any", configs), lambda: leads, lambda: 5.0), configs

    for leads, reads in ((True, 1), (False, 0)):
        made, configs = signatures(leads)
        for _ in range(100):
            with pytest.raises(Forbidden):
                made.check(b"body", "Zm9yZ2Vk", HMAC_SHA256)
        assert configs.reads == reads
    made, _ = signatures(leads=True)
    made.check(b"body", sign(key, b"body")[SIGNATURE], HMAC_SHA256)


def test_a_signature_is_what_javas_hmac_gives() -> None:
    """RFC 4231, the second case."""
    key = SessionKey(b"Jefe", HMAC_SHA256, 0)
    assert sign(key, b"what do ya want for nothing?")[SIGNATURE] == "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="


def test_calls_are_handed_on_with_their_own_parameters() -> None:
    assert with_hop("/connectors/a%2Fb/pause", "true") == "/connectors/a%2Fb/pause?forward=true"
    assert with_hop("/c?includeTasks=true&forward=true", "false") == "/c?includeTasks=true&forward=false"


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest/meta-data?a=1", "//169.254.169.254/latest", "/connectors/@169.254.169.254/x"],
)
def test_a_call_is_handed_on_to_the_worker_whatever_address_its_target_names(target: str) -> None:
    assert urlsplit("http://worker:8083" + with_hop(target, "true")).netloc == "worker:8083"


def test_transactional_ids_are_apaches() -> None:
    assert transactional_id("g", TaskId("c", 2)) == "g-c-2"


def test_storage_topics_are_named_after_the_group_unless_they_are_given() -> None:
    config = distributed_config({"group.id": "g", "status.storage.topic": "s", "offset.storage.segment.bytes": "5"})
    assert [config[f"{kind}.storage.topic"] for kind in ("config", "offset", "status")] == [
        "g-configs",
        "g-offsets",
        "s",
    ]
    assert topic_settings(config, "offset") == {"segment.bytes": "5"}
    assert config.unknown == []
    assert says_enabled(config)
    assert config.props["value.converter"] == "org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.parametrize(
    "props", [{}, {"group.id": "g", "status.storage.topic": "g-configs"}, {"group.id": "g", "session.timeout.ms": "x"}]
)
def test_properties_that_cannot_be_used_are_told(props: dict[str, str]) -> None:
    with pytest.raises(UserError):
        distributed_config(props)


SOURCE = {"name": "c", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}


@pytest.mark.parametrize(
    ("more", "delivery", "wrong"),
    [
        ({"exactly.once.support": "required"}, Delivery.EXACTLY_ONCE, None),
        ({"exactly.once.support": "required"}, Delivery.AT_LEAST_ONCE, "exactly.once.support"),
        ({"exactly.once.support": "required"}, Delivery.STANDALONE, "exactly.once.support"),
        ({"transaction.boundary": "connector"}, Delivery.EXACTLY_ONCE, "transaction.boundary"),
        ({"transaction.boundary": "interval"}, Delivery.EXACTLY_ONCE, None),
        ({"offsets.storage.topic": "o"}, Delivery.EXACTLY_ONCE, None),
        ({"offsets.storage.topic": "o"}, Delivery.AT_LEAST_ONCE, None),
        ({"offsets.storage.topic": "o"}, Delivery.STANDALONE, "offsets.storage.topic"),
    ],
)
def test_what_a_worker_cannot_deliver_is_refused_by_name(
    more: dict[str, str], delivery: Delivery, wrong: str | None
) -> None:
    found = validate(Catalog(installed=False), {**SOURCE, **more}, delivery)
    assert [name for name, value in found.values.items() if value.errors] == ([wrong] if wrong else [])


WORKER = {"bootstrap.servers": "a:1,b:2", "config.storage.topic": "g-configs", "status.storage.topic": "g-status"}


@pytest.mark.parametrize(
    ("props", "said"),
    [
        ({"offsets.storage.topic": "own"}, None),
        ({"offsets.storage.topic": "g-configs"}, "config.storage.topic"),
        ({"offsets.storage.topic": "g-status"}, "status.storage.topic"),
        ({"offsets.storage.topic": "__consumer_offsets"}, "the cluster's"),
        ({"offsets.storage.topic": "_schemas"}, "registry's"),
        ({"offsets.storage.topic": "own", "producer.override.bootstrap.servers": "b:2, a:1"}, None),
        ({"offsets.storage.topic": "own", "producer.override.bootstrap.servers": "c:3"}, "leads to another one"),
    ],
)
def test_an_offsets_topic_that_is_somebody_elses_or_elsewhere_is_refused(
    props: dict[str, str], said: str | None
) -> None:
    wrong = wrong_offsets_topic(props, WORKER)
    assert len(wrong) == (said is not None)
    assert said is None or said in wrong[0]
