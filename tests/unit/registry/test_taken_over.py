"""A topic that a registry of Confluent's has written is taken over: records in the forms in which version 7.4 leaves
them (what such a log looks like is published; the schemas here are our own).
"""

import json
from typing import Any

import pytest

from headwater.registry.decisions import reading
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Rules
from headwater.registry.records import decode_key, encode_key
from headwater.registry.state import State
from unit.registry.twin import Twin, code, record

NOOP = b'{"keytype":"NOOP","magic":0}'
CARD, SHOP = record("Card", ("number", "string")), record("Shop", ("name", "string"))


def version_key(subject: str, version: int) -> bytes:
    return f'{{"keytype":"SCHEMA","subject":"{subject}","version":{version},"magic":1}}'.encode()


def version_value(subject: str, version: int, id_: int, schema: str, **more: Any) -> bytes:
    """`schemaType` is not there for Avro, and stands behind `deleted` where Jackson happens to put it."""
    value = {"subject": subject, "version": version, "id": id_, "schema": schema, "deleted": False, **more}
    return json.dumps(value, separators=(",", ":")).encode()


PROTO = 'syntax = "proto3";\npackage m;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
REFERENCE = [{"name": "Card", "subject": "cards", "version": 1}]
LOG: list[tuple[bytes, bytes | None]] = [
    (NOOP, None),
    (NOOP, None),
    (b'{"keytype":"CONFIG","subject":"shops","magic":0}', b'{"subject":"shops","compatibilityLevel":"NONE"}'),
    (version_key("shops", 1), version_value("shops", 1, 1, SHOP)),
    (version_key("shops", 2), version_value("shops", 2, 2, CARD)),
    (version_key("shops", 1), version_value("shops", 1, 1, SHOP, deleted=True)),
    (version_key("shops", 1), None),
    (version_key("gone", 1), version_value("gone", 1, 3, SHOP)),
    (b'{"keytype":"DELETE_SUBJECT","subject":"gone","magic":0}', b'{"subject":"gone","version":1}'),
    (version_key("gone", 1), None),
    (b'{"keytype":"MODE","subject":"frozen","magic":0}', b'{"subject":"frozen","mode":"READONLY"}'),
    (b'{"keytype":"MODE","subject":"frozen","magic":0}', None),
    (b'{"keytype":"CLEAR_SUBJECT","subject":"brought","magic":0}', b'{"subject":"brought"}'),
    (b'{"keytype":"MODE","subject":"brought","magic":0}', b'{"subject":"brought","mode":"IMPORT"}'),
    (version_key("brought", 5), version_value("brought", 5, 42, SHOP)),
    (version_key("cards", 1), version_value("cards", 1, 43, CARD)),
    (
        version_key("orders", 1),
        version_value("orders", 1, 44, record("Order", ("card", "Card")), references=REFERENCE),
    ),
    (version_key("money", 1), version_value("money", 1, 45, PROTO, schemaType="PROTOBUF")),
]


def taken_over() -> Twin:
    twin = Twin()
    state = State()
    for key, value in LOG:
        state.apply(key, value)
    twin.registry = Registry(state, Rules(), SchemaParser())
    return twin


def test_what_it_holds_is_known() -> None:
    state = taken_over().state
    assert {name: list(versions) for name, versions in state.subjects.items()} == {
        "shops": [2],
        "brought": [5],
        "cards": [1],
        "orders": [1],
        "money": [1],
    }
    assert state.configs == {"shops": {"compatibilityLevel": "NONE"}}
    assert state.modes == {"brought": "IMPORT"}
    assert [each.place for each in state.referrers(("cards", 1))] == [("orders", 1)]
    money = reading.version_with_id(state, 45, None)
    assert (money.content.schema_type, money.content.text) == ("PROTOBUF", PROTO)


def test_keys_are_written_in_the_same_bytes() -> None:
    """Compaction compares them: else what was deleted here would come back there."""
    for key, _ in LOG:
        decoded = decode_key(key)
        assert decoded is not None
        assert encode_key(decoded) == key


def test_it_goes_on_where_the_other_stopped() -> None:
    twin = taken_over()
    assert twin.register("cards", CARD)["id"] == 43
    new = record("Card", ("number", "string"), ("valid", ["null", "string"]))
    assert code(twin.register, "cards", new) == 40901
    assert twin.register("shops", new)["id"] == 46
    assert twin.register("money", PROTO.replace("\n\n", "\n  \n"), schemaType="PROTOBUF")["id"] == 45
    assert [key for key, _ in twin.log] == [version_key("shops", 3)]


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ('"subject":"gone",', {":.c:gone": [1], "shops": [1, 2]}),
        ('"subject":":.c:",', {"gone": [1], "shops": [1, 2]}),
        ("", {"shops": [2]}),
        ('"subject":":.__GLOBAL:",', {"shops": [2]}),
    ],
)
def test_what_was_deleted_softly_is_gone_once_its_subjects_are_cleared(scope: str, left: dict[str, list[int]]) -> None:
    """The record was passed over, and the one for all subjects, which names none, was not even known."""
    log = [
        *((version_key(each, 1), version_value(each, 1, 1, SHOP, deleted=True)) for each in ("gone", ":.c:gone")),
        (version_key("shops", 1), version_value("shops", 1, 2, CARD, deleted=True)),
        (version_key("shops", 2), version_value("shops", 2, 1, SHOP)),
        (f'{{"keytype":"CLEAR_SUBJECT",{scope}"magic":0}}'.encode(), b"{" + scope[:-1].encode() + b"}"),
    ]
    state = State()
    for key, value in log:
        state.apply(key, value)
        decoded = decode_key(key)
        assert decoded is not None
        assert encode_key(decoded) == key
    assert {name: list(versions) for name, versions in state.subjects.items()} == left
    assert state.next_id(".") == 3
