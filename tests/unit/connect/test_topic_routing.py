"""Changes of several tables into one topic, by ToLogicalTopicRouter."""

from typing import Any

import pytest

from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError
from headwater.connect.plugins import Catalog, Kind

CONFIG = {"topic.regex": r"(.*)_shard\d", "topic.replacement": "$1"}


def change(topic: str, op: str = "c") -> ConnectRecord:
    row = s.struct([("id", s.INT32)], name=f"{topic}.Value", optional=True)
    envelope = s.struct([("before", row), ("after", row), ("op", s.STRING)], name=f"{topic}.Envelope", version=2)
    key = s.struct([("id", s.INT32)], name=f"{topic}.Key")
    value = Struct(envelope, {"after": Struct(row, {"id": 1}), "op": op})
    return ConnectRecord(topic=topic, key_schema=key, key=Struct(key, {"id": 1}), value_schema=envelope, value=value)


def router(name: str = "ToLogicalTopicRouter", **config: str) -> Any:
    made = Catalog().find(f"io.debezium.transforms.{name}", Kind.TRANSFORMATION).make()
    made.configure({**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
    return made


def test_tables_share_a_topic_and_its_schemas() -> None:
    routed = router()
    first, second = (routed.apply(change(f"p.s.users_shard{number}")) for number in (1, 2))
    assert {first.topic, second.topic} == {"p.s.users"}
    assert first.value_schema == second.value_schema
    assert first.key_schema == second.key_schema
    assert (first.key_schema.name, first.value_schema.name, first.value_schema.version) == ("p.s.users.Key", "p.s.users.Envelope", 2)  # fmt: skip
    assert first.value_schema.field("after").schema.name == "p.s.users.Value"
    assert first.value.get("after").as_dict() == {"id": 1}
    assert second.key.as_dict() == {"id": 1, "__dbz__sourceIdentifier": "p.s.users_shard2"}


def test_the_field_of_a_key_is_made_of_the_topic_or_left_out() -> None:
    record = change("p.s.users_shard1")
    named = router(key_field_name="from", key_field_regex=r".*_(shard\d)", key_field_replacement="$1")
    assert named.apply(record).key.as_dict() == {"id": 1, "from": "shard1"}
    assert router(key_enforce_uniqueness="false").apply(record).key.as_dict() == {"id": 1}
    assert "__dbz__physicalTableIdentifier" in router("ByLogicalTableRouter").apply(record).key.as_dict()


def test_what_has_another_topic_or_no_envelope_keeps_its_value() -> None:
    routed, other = router(), change("p.s.users")
    assert routed.apply(other) is other
    gone = ConnectRecord(topic="p.s.users_shard1", key_schema=change("x").key_schema, key=change("x").key)
    assert (routed.apply(gone).topic, routed.apply(gone).value) == ("p.s.users", None)
    plain = ConnectRecord(topic="p.s.users_shard1", value_schema=s.STRING, value="beat")
    assert (routed.apply(plain).topic, routed.apply(plain).value) == ("p.s.users", "beat")


def test_names_can_be_those_of_avro() -> None:
    made = router(schema_name_adjustment_mode="avro").apply(change("1-p.s.users_shard1"))
    assert made.topic == "1-p.s.users"
    assert made.value_schema.name == "_1_p.s.users.Envelope"


def test_a_pattern_for_the_key_needs_its_replacement() -> None:
    with pytest.raises(ConfigError, match=r"key\.field\.replacement must be non-empty if key\.field\.regex is set"):
        router(key_field_regex=".*")
