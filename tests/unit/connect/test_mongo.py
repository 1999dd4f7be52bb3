"""MongoSink and MongoSource without a server: documents, ids, writes, properties."""

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp

from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.mongo import source_options
from headwater.connect.connectors.mongo.documents import document_of, encoded
from headwater.connect.connectors.mongo.projections import projected
from headwater.connect.connectors.mongo.sink_options import CONFIG_DEF, config_of, overridden_topics, unsupported
from headwater.connect.connectors.mongo.source import MongoSourceConnector, next_filter, partition_of, value_at
from headwater.connect.connectors.mongo.source_options import CONFIG_DEF as SOURCE_DEF
from headwater.connect.connectors.mongo.source_options import pipeline_of, topic_of
from headwater.connect.connectors.mongo.writes import Write, write_of
from headwater.connect.data import schema as s
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, DataError
from headwater.connect.plugins import Catalog

NOW = datetime(2020, 1, 1, tzinfo=UTC)
STRATEGY = "com.mongodb.kafka.connect.sink.processor.id.strategy."


def write(value: Any, key: Any = None, **config: str) -> Write | None:
    named = {name.replace("_", "."): each for name, each in config.items()}
    made = write_of(CONFIG_DEF.parse({"database": "d", **named}), record(value, key), NOW)
    if made is not None and made.document is not None and made.kind != "update":
        return made._replace(document=bson.decode(made.document.raw))
    return made


def record(value: Any, key: Any = None) -> SinkRecord:
    return SinkRecord(topic="t", partition=1, offset=7, key=key, value=value)


def test_values_are_documents() -> None:
    inner = s.struct([("n", s.INT64)])
    schema = s.struct(
        [
            ("i", s.INT32),
            ("l", s.INT64),
            ("d", s.decimal_schema(2)),
            ("day", s.DATE_SCHEMA),
            ("in", inner),
            ("m", s.map_of(s.INT32, s.INT64)),
        ]
    )
    struct = Struct(
        schema,
        {"i": 1, "l": 2, "d": Decimal("1.50"), "day": date(1970, 1, 2), "in": Struct(inner, {"n": 3}), "m": {1: 2}},
    )
    found = document_of(struct, "value")
    day = datetime(1970, 1, 2, tzinfo=UTC)
    assert found == {"i": 1, "l": 2, "d": Decimal128("1.50"), "day": day, "in": {"n": 3}, "m": {"1": 2}}
    assert [type(each) for each in (found["i"], found["l"], found["in"]["n"], found["m"]["1"])] == [
        int,
        Int64,
        Int64,
        Int64,
    ]
    oid = ObjectId()
    assert document_of(f'{{"_id": {{"$oid": "{oid}"}}}}', "value") == {"_id": oid}
    assert document_of(bson.encode({"a": 1}), "value") == {"a": 1}
    for wrong in ("plain", "[1]", b"\x00", 5, [1]):
        with pytest.raises(DataError, match="value is no document"):
            document_of(wrong, "value")


def test_what_no_document_can_have_is_told() -> None:
    for wrong in ({"a": 2**70}, {"a": object()}, {"a\0": 1}, {"a": "x" * (16 << 20)}):
        with pytest.raises(DataError):
            encoded(wrong)
    with pytest.raises(DataError, match="34 digits"):
        document_of({"a": Decimal("1." + "1" * 40)}, "value")


@pytest.mark.parametrize(
    ("strategy", "key", "expected"),
    [
        ("KafkaMetaDataStrategy", None, "t#1#7"),
        ("FullKeyStrategy", {"k": 1, "j": 2}, {"k": 1, "j": 2}),
        (f"{STRATEGY}FullKeyStrategy", "plain", "plain"),
        ("PartialKeyStrategy", {"k": 1, "j": 2}, {"k": 1}),
        ("PartialValueStrategy", None, {"v": 5}),
        ("ProvidedInKeyStrategy", {"_id": 3}, 3),
        (
            "UuidProvidedInKeyStrategy",
            {"_id": "0e37df36-f698-11e6-8dd4-cb9ced3df976"},
            Binary.from_uuid(uuid.UUID("0e37df36-f698-11e6-8dd4-cb9ced3df976")),
        ),
    ],
)
def test_ids(strategy: str, key: Any, expected: Any) -> None:
    partial = {
        f"document.id.strategy.partial.{part}.projection.{name}": value
        for part, names in (("key", "k"), ("value", "v"))
        for name, value in (("type", "allowlist"), ("list", names))
    }
    config = {"database": "d", "document.id.strategy": strategy, **partial}
    made = write_of(CONFIG_DEF.parse(config), record({"v": 5, "w": 6}, key), NOW)
    assert made is not None
    assert made.kind == "replace"
    assert made.filter == {"_id": {"$eq": expected}}
    assert bson.decode(made.document.raw) == {"_id": expected, "v": 5, "w": 6}


def test_an_id_of_the_value_stays_unless_it_is_overwritten() -> None:
    assert write({"_id": 9, "v": 1}, "k", document_id_strategy="FullKeyStrategy") == Write(
        "replace", {"_id": {"$eq": 9}}, {"_id": 9, "v": 1}
    )
    overwritten = {"document_id_strategy": "FullKeyStrategy", "document_id_strategy_overwrite_existing": "true"}
    assert write({"_id": 9, "v": 1}, "k", **overwritten) == Write(
        "replace", {"_id": {"$eq": "k"}}, {"_id": "k", "v": 1}
    )
    made = write({"v": 1})
    assert made is not None
    assert isinstance(made.filter["_id"]["$eq"], ObjectId)
    made = write({"v": 1}, document_id_strategy="UuidStrategy", document_id_strategy_uuid_format="binary")
    assert made is not None
    assert isinstance(made.filter["_id"]["$eq"], Binary)
    assert isinstance(made.filter["_id"]["$eq"].as_uuid(), uuid.UUID)


def test_an_id_that_is_provided_is_taken_where_there_is_none() -> None:
    key = {"_id": 3}
    assert write({"_id": 9}, key, document_id_strategy="ProvidedInKeyStrategy") == Write("replace", {"_id": {"$eq": 9}}, {"_id": 9})  # fmt: skip
    for value in ({"v": 1}, {"_id": None, "v": 1}):
        made = write(value, key, document_id_strategy="ProvidedInKeyStrategy")
        assert made is not None
        assert made.filter == {"_id": {"$eq": 3}}
    with pytest.raises(DataError, match="value has no _id"):
        write({"_id": None}, document_id_strategy="ProvidedInValueStrategy")


DOCUMENT = {"a": {"x": 1, "y": {"z": 2}}, "b": [{"x": 3, "y": 4}, 5], "c": 6, "cd": 7}


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        ("allowlist", ["c"], {"c": 6}),
        ("allowlist", ["a", "c"], {"a": {}, "c": 6}),
        ("whitelist", ["a.**"], {"a": {"x": 1, "y": {"z": 2}}}),
        ("allowlist", ["a.y.z", "b.x"], {"a": {"y": {"z": 2}}, "b": [{"x": 3}, 5]}),
        ("allowlist", ["a", "*.x"], {"a": {"x": 1}, "b": [{"x": 3}, 5], "c": 6, "cd": 7}),
        ("allowlist", ["c*"], {"c": 6, "cd": 7}),
        ("allowlist", ["**"], DOCUMENT),
        ("blocklist", ["c", "a.x"], {"a": {"y": {"z": 2}}, "b": DOCUMENT["b"], "cd": 7}),
        ("blacklist", ["*"], {"a": DOCUMENT["a"]}),
        ("blocklist", ["*.y", "b.x"], {"a": {"x": 1}}),
        ("blocklist", ["c*", "a", "b.y"], {"b": [{"x": 3}, 5]}),
        ("blocklist", ["**"], {}),
    ],
)
def test_lists_of_fields_name_those_within_others(kind: str, names: list[str], expected: Any) -> None:
    assert projected(DOCUMENT, kind, names) == expected


def test_a_business_key_goes_by_the_paths_of_its_fields() -> None:
    partial = {"type": "AllowList", "list": "a.x,c"}
    config = {f"document_id_strategy_partial_value_projection_{name}": value for name, value in partial.items()}
    made = write({"a": {"x": 1, "y": 2}, "c": 3}, document_id_strategy="PartialValueStrategy", writemodel_strategy="ReplaceOneBusinessKeyStrategy", **config)  # fmt: skip
    assert made == Write("replace", {"a.x": {"$eq": 1}, "c": {"$eq": 3}}, {"a": {"x": 1, "y": 2}, "c": 3})


def test_a_business_key_of_a_document_without_fields_finds_no_other_document() -> None:
    """Its filter was empty: any document was replaced, or deleted."""
    partial = {"type": "allowlist", "list": "a"}
    config = {f"document_id_strategy_partial_key_projection_{name}": value for name, value in partial.items()}
    for strategy, kind in (("ReplaceOneBusinessKeyStrategy", "replace"), ("DeleteOneBusinessKeyStrategy", "delete")):
        made = write({"v": 1}, {"a": {"x": 1}}, document_id_strategy="PartialKeyStrategy", writemodel_strategy=strategy, **config)  # fmt: skip
        assert made is not None
        assert (made.kind, made.filter) == (kind, {"a": {"$eq": {}}})


def test_a_deletion_by_a_record_with_a_value_goes_by_its_key() -> None:
    deletes = {"writemodel_strategy": "DeleteOneDefaultStrategy"}
    assert write({"v": 1}, {"_id": 5}, **deletes) == Write("delete", {"_id": {"$eq": 5}})
    assert write({"v": 1}, {"k": 5}, **deletes) == Write("delete", {"_id": {"$eq": {"k": 5}}})


def test_a_tombstone_deletes_or_is_passed_over() -> None:
    assert write(None, "k", document_id_strategy="FullKeyStrategy") is None
    assert write(None, "k", document_id_strategy="FullKeyStrategy", delete_on_null_values="true") == Write(
        "delete", {"_id": {"$eq": "k"}}
    )
    with pytest.raises(DataError, match="no key"):
        write(None, None, document_id_strategy="FullKeyStrategy", delete_on_null_values="true")


def test_what_is_done_with_a_document() -> None:
    by_key = {"document_id_strategy": "FullKeyStrategy"}
    assert write({"v": 1}, "k", **by_key, writemodel_strategy="InsertOneDefaultStrategy") == Write(
        "insert", {}, {"_id": "k", "v": 1}
    )
    assert write({"v": 1}, "k", **by_key, writemodel_strategy="UpdateOneDefaultStrategy") == Write(
        "update", {"_id": {"$eq": "k"}}, {"$set": {"v": 1}}
    )
    assert write({"v": 1}, "k", **by_key, writemodel_strategy="UpdateOneTimestampsStrategy") == Write(
        "update", {"_id": {"$eq": "k"}}, {"$set": {"v": 1, "_modifiedTS": NOW}, "$setOnInsert": {"_insertedTS": NOW}}
    )
    assert write({"v": 1}, {"a": 2}, **by_key, writemodel_strategy="ReplaceOneBusinessKeyStrategy") == Write(
        "replace", {"a": {"$eq": 2}}, {"v": 1}
    )
    assert write({"v": 1}, {"a": 2}, **by_key, writemodel_strategy="DeleteOneBusinessKeyStrategy") == Write(
        "delete", {"a": {"$eq": 2}}
    )
    with pytest.raises(DataError, match="id that is a document"):
        write({"v": 1}, "k", **by_key, writemodel_strategy="ReplaceOneBusinessKeyStrategy")


def test_what_a_record_has_is_never_an_operator() -> None:
    by_key = {"document_id_strategy": "FullKeyStrategy", "delete_on_null_values": "true"}
    by_fields = {**by_key, "writemodel_strategy": "DeleteOneBusinessKeyStrategy"}
    for value in (None, {"v": 1}):
        made = write(value, '{"a": {"$regularExpression": {"pattern": ".", "options": ""}}}', **by_fields)
        assert made == Write("delete", {"a": {"$eq": Regex(".")}})
        made = write(value, {"a": {"$ne": None}}, **by_fields)
        assert made == Write("delete", {"a": {"$eq": {"$ne": None}}})
        for key in ({"$ne": None}, '{"$where": "true"}', {"a": 1, "$or": []}):
            for config in (by_key, by_fields):
                with pytest.raises(DataError, match=r"begin with \$"):
                    write(value, key, **config)


def test_a_replacement_is_no_update() -> None:
    with pytest.raises(DataError, match=r"value has the field '\$set'"):
        write({"$set": {"admin": True}, "_id": 1})


def test_an_id_that_cannot_be_written_is_told_for_deletions_too() -> None:
    with pytest.raises(DataError, match="cannot be BSON"):
        write(None, 2**70, document_id_strategy="FullKeyStrategy", delete_on_null_values="true")


def test_a_tombstone_deletes_by_the_fields_that_the_documents_go_by() -> None:
    deleting = {"document_id_strategy": "FullKeyStrategy", "delete_on_null_values": "true"}
    by_fields, by_id = Write("delete", {"a": {"$eq": 2}}), Write("delete", {"_id": {"$eq": {"a": 2}}})
    prefix = "com.mongodb.kafka.connect.sink.writemodel.strategy."
    for writing, deletion, expected in (
        ("ReplaceOneBusinessKeyStrategy", "", by_fields),
        ("ReplaceOneBusinessKeyStrategy", "DeleteOneDefaultStrategy", by_id),
        ("ReplaceOneDefaultStrategy", "", by_id),
        ("ReplaceOneDefaultStrategy", f"{prefix}DeleteOneBusinessKeyStrategy", by_fields),
        ("ReplaceOneDefaultStrategy", f"{prefix}DeleteOneTombstoneBusinessKeyStrategy", by_fields),
    ):
        config = {"writemodel_strategy": writing, "delete_writemodel_strategy": deletion}
        assert write(None, {"a": 2}, **deleting, **config) == expected


def test_a_topic_may_have_properties_of_its_own() -> None:
    props = {
        "database": "d",
        "topic.override.a.b.collection": "c",
        "topic.override.a.b.bulk.write.ordered": "false",
        "topic.override.x.y": "z",
    }
    assert (config_of(props, "a.b")["collection"], config_of(props, "a.b")["bulk.write.ordered"]) == ("c", False)
    assert config_of(props, "other")["collection"] == ""
    assert overridden_topics(props) == ["a.b"]
    assert unsupported({**props, "timeseries.timefield": "t", "field.renamer.mapping": "[1]"}) == [
        "field.renamer.mapping", "timeseries.timefield", "topic.override.x.y"
    ]  # fmt: skip


def test_what_the_originals_do_unasked_may_be_asked_for() -> None:
    """MongoDB's own example of a config was refused, nine times."""
    said = {"key.projection.type": "none", "field.renamer.mapping": "[]", "rate.limiting.timeout": "0", "change.data.capture.handler": ""}  # fmt: skip
    assert unsupported(said) == []
    assert unsupported({**said, "rate.limiting.timeout": "5"}) == ["rate.limiting.timeout"]
    assert source_options.unsupported({"collation": "", "heartbeat.interval.ms": "0", "copy.existing": "true"}) == []
    assert source_options.parse({"copy.existing": "true"})["startup.mode"] == "copy_existing"
    assert source_options.parse({"copy.existing": "true", "startup.mode": "latest"})["startup.mode"] == "latest"


@pytest.mark.parametrize(
    ("config", "wrong", "sentence"),
    [
        ({"connection.uri": "http://x"}, "connection.uri", "connection.uri"),
        ({"connection.uri": "mongodb://h/?noSuchOption=1"}, "connection.uri", "nosuchoption"),
        ({"change.data.capture.handler": "x"}, "connection.uri", "change.data.capture.handler is not supported"),
        ({"document.id.strategy": "Mine"}, "document.id.strategy", "is one of"),
        ({"writemodel.strategy": "Mine"}, "writemodel.strategy", "is one of"),
        ({"delete.writemodel.strategy": "InsertOneDefaultStrategy"}, "delete.writemodel.strategy", "is one of"),
        ({"delete.on.null.values": "true"}, "delete.on.null.values", "comes from the key"),
        ({"document.id.strategy": "PartialKeyStrategy"}, "document.id.strategy.partial.key.projection.type", "needs"),
        ({"topic.override.a.document.id.strategy": "Mine"}, "connection.uri", "topic.override.a: document.id.strategy"),
    ],
)
def test_wrong_configs_of_the_sink_are_told_at_their_property(
    config: dict[str, str], wrong: str, sentence: str
) -> None:
    given = {
        "name": "c",
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "topics": "t",
        "database": "d",
    }
    told(given, config, wrong, sentence)


@pytest.mark.parametrize(
    ("config", "wrong", "sentence"),
    [
        ({"collection": "c"}, "database", "needs a database"),
        ({"poll.field": "n", "database": "d"}, "collection", "needs a collection"),
        ({"poll.field": "n", "database": "d", "collection": "c", "pipeline": "[]"}, "pipeline", "change streams"),
        ({"pipeline": "{}"}, "pipeline", "JSON list"),
        ({"topic.namespace.map": "[]"}, "topic.namespace.map", "JSON object"),
        ({"output.json.formatter": "SimplifiedJson"}, "output.json.formatter", "ExtendedJson"),
        ({"heartbeat.interval.ms": "5"}, "connection.uri", "heartbeat.interval.ms is not supported"),
        ({"startup.mode": "timestamp"}, "startup.mode", "timestamp"),
    ],
)
def test_wrong_configs_of_the_source_are_told_at_their_property(
    config: dict[str, str], wrong: str, sentence: str
) -> None:
    told({"name": "c", "connector.class": "com.mongodb.kafka.connect.MongoSourceConnector"}, config, wrong, sentence)


def told(given: dict[str, str], config: dict[str, str], wrong: str, sentence: str) -> None:
    checked = validate(Catalog(installed=False), {**given, **config})
    errors = {name: each.errors for name, each in checked.values.items() if each.errors}
    assert list(errors) == [wrong]
    assert sentence in errors[wrong][0]


def test_documents_come_after_the_last() -> None:
    assert next_filter("n", None) == {"n": {"$ne": None}}
    behind_dates = {"$type": ["timestamp", "regex"]}
    behind_ids = {"$type": ["bool", "date", "timestamp", "regex"]}
    oid = ObjectId()
    by_id = [{"_id": {"$gt": oid}}, {"_id": behind_ids}]
    assert next_filter("_id", {"value": oid, "_id": oid}) == {"$or": by_id}
    assert next_filter("n", {"value": NOW, "_id": oid}) == {
        "$or": [{"n": {"$gt": NOW}}, {"n": behind_dates}, {"n": {"$eq": NOW}, "$or": by_id}]
    }


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, "number"), (True, "bool"), (Decimal128("1"), "number"), (Int64(1), "number"), ("a", "string"), ({"a": 1}, "object"),
        (b"x", "binData"), (uuid.UUID(int=1), "binData"), (Timestamp(1, 1), "timestamp"),
    ],
)  # fmt: skip
def test_documents_of_the_types_behind_come_too(value: Any, kind: str) -> None:
    order = ["number", "string", "object", "array", "binData", "objectId", "bool", "date", "timestamp", "regex"]
    within, behind = next_filter("_id", {"value": value, "_id": value})["$or"]
    assert within == {"_id": {"$gt": value}}
    assert behind == {"_id": {"$type": order[order.index(kind) + 1 :]}}


def test_what_is_no_number_is_before_all_numbers() -> None:
    assert next_filter("_id", {"_id": float("nan")})["$or"][0] == {"_id": {"$gte": float("-inf")}}


def test_fields_are_found_by_their_paths() -> None:
    assert value_at({"a": {"b": 2}}, "a.b") == 2
    assert value_at({"a": 1}, "a.b") is None


def test_a_pipeline_is_extended_json() -> None:
    oid = ObjectId()
    text = f'[{{"$match": {{"documentKey._id": {{"$oid": "{oid}"}}}}}}]'
    assert pipeline_of({"pipeline": text}) == [{"$match": {"documentKey._id": oid}}]


def test_topics_and_partitions_have_names() -> None:
    def config(**more: str) -> dict[str, Any]:
        return SOURCE_DEF.parse({name.replace("_", "."): value for name, value in more.items()})

    assert topic_of(config(topic_prefix="p", topic_suffix="s"), "d", "c") == "p.d.c.s"
    assert topic_of(config(topic_prefix="p", topic_namespace_map='{"d.c": "x", "*": "y"}'), "d", "c") == "p.x"
    assert topic_of(config(topic_namespace_map='{"d.c": "x", "*": "y"}'), "d", "e") == "y"
    secret = config(connection_uri="mongodb://u:pa55@h1,h2/?x=1", database="d", collection="c")
    assert partition_of(secret) == {"ns": "mongodb://h1,h2/d.c"}
    assert partition_of(config(offset_partition_name="mine")) == {"ns": "mine"}


def test_an_offset_of_another_form_is_refused_where_it_is_set() -> None:
    """It was taken, and the task ended in an error of the JSON parser, or went on as before."""
    props = {"connection.uri": "mongodb://u:p@h:1", "database": "d", "collection": "c"}
    here = {"ns": "mongodb://h:1/d.c"}
    streams, polls = MongoSourceConnector(), {**props, "poll.field": "n"}
    token, last = {"_id": '{"_data": "00"}'}, {"poll": '{"value": 5, "_id": {"$oid": "0123456789abcdef01234567"}}'}
    assert streams.alter_offsets(props, [(here, token), (here, {**token, "copy": "true"}), ({"x": 1}, None)])
    assert streams.alter_offsets(polls, [(here, last)])
    for given, partition, offset in (
        (props, {"ns": "mongodb://h:1/d.x"}, token), (props, here, last), (props, here, {"_id": 5}), (props, here, {"_id": "{"}),
        (props, here, {"_id": "5"}), (polls, here, token), (polls, here, {"poll": '{"value": 5}'}), (polls, here, {}),
    ):  # fmt: skip
        with pytest.raises(ConnectError, match=r"of this connector is|of MongoSource"):
            streams.alter_offsets(given, [(partition, offset)])
