"""The Avro schemas that statements register: their text is ksqlDB's, so that its topics go on with one version."""

import json
from typing import Any

import pytest

from headwater.sql.testing import prepared

_SPACE = "io.confluent.ksql.avro_schemas"
_CONNECT = "org.apache.kafka.connect.data"


def _schema(source: str, side: str, statements: str) -> Any:
    session, _ = prepared(statements)
    found = session.catalog.sources[source]
    registered = session.schemas.latest(f"{found.topic}-{side}") if session.schemas else None
    assert registered is not None
    return json.loads(registered.schema.canonical)


def _type_of(field: str) -> Any:
    schema = _schema(
        "S", "value", f"CREATE STREAM s (f {field}) WITH (kafka_topic='in', value_format='AVRO', partitions=1);"
    )
    ((name, (null, found), default),) = ((each["name"], each["type"], each["default"]) for each in schema["fields"])
    assert (name, null, default) == ("F", "null", None)
    return found


def test_a_record_of_values_has_the_name_that_all_have() -> None:
    schema = _schema(
        "S", "value", "CREATE STREAM s (a INT) WITH (kafka_topic='in', value_format='AVRO', partitions=1);"
    )
    assert schema == {
        "type": "record",
        "name": "KsqlDataSourceSchema",
        "namespace": _SPACE,
        "fields": [{"name": "A", "type": ["null", "int"], "default": None}],
        "connect.name": f"{_SPACE}.KsqlDataSourceSchema",
    }


@pytest.mark.parametrize(
    ("source", "simple"),
    [
        ("output", "OutputKey"),
        ("`fOoBaR`", "FoobarKey"),
        ("`_Foo_bar_`", "FooBarKey"),
        ("by_page", "ByPageKey"),
        ("`my-s`", "KsqlDataSourceSchema"),
        ("`1st`", "KsqlDataSourceSchema"),
    ],
)
def test_a_record_of_keys_is_named_after_its_source(source: str, simple: str) -> None:
    name = source.strip("`") if "`" in source else source.upper()
    statement = (
        f"CREATE STREAM {source} (a INT KEY, b INT KEY, c INT) WITH (kafka_topic='in', format='AVRO', partitions=1);"
    )
    schema = _schema(name, "key", statement)
    assert (schema["name"], schema["connect.name"]) == (simple, f"{_SPACE}.{simple}")


def test_a_key_keeps_the_name_that_the_statement_says() -> None:
    statements = """CREATE STREAM s (a INT KEY, b INT KEY, c INT)
    WITH (kafka_topic='in', format='AVRO', partitions=1, key_schema_full_name='shop.Line');"""
    assert _schema("S", "key", statements)["connect.name"] == "shop.Line"


def test_the_key_of_a_result_is_named_after_the_result() -> None:
    statements = """CREATE STREAM s (a STRUCT<x STRUCT<y INT>>, b INT) WITH (kafka_topic='in', value_format='JSON', partitions=1);
    CREATE STREAM by_a WITH (key_format='AVRO') AS SELECT * FROM s PARTITION BY a;"""
    schema = _schema("BY_A", "key", statements)
    inner = schema["fields"][0]["type"][1]
    assert (schema["name"], inner["name"], inner["connect.name"]) == ("ByAKey", "ByAKey_X", f"{_SPACE}.ByAKey_X")


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("BYTES", "bytes"),
        ("DATE", {"type": "int", "connect.version": 1, "connect.name": f"{_CONNECT}.Date", "logicalType": "date"}),
        ("TIME", {"type": "int", "connect.version": 1, "connect.name": f"{_CONNECT}.Time", "logicalType": "time-millis"}),
        ("TIMESTAMP", {"type": "long", "connect.version": 1, "connect.name": f"{_CONNECT}.Timestamp", "logicalType": "timestamp-millis"}),
        ("DECIMAL(4, 2)", {"type": "bytes", "scale": 2, "precision": 4, "connect.version": 1, "connect.parameters": {"scale": "2", "connect.decimal.precision": "4"}, "connect.name": f"{_CONNECT}.Decimal", "logicalType": "decimal"}),
        ("ARRAY<BIGINT>", {"type": "array", "items": ["null", "long"]}),
        ("MAP<STRING, INT>", {
            "type": "array",
            "items": {
                "type": "record", "name": "KsqlDataSourceSchema_F",
                "fields": [
                    {"name": "key", "type": ["null", "string"], "default": None},
                    {"name": "value", "type": ["null", "int"], "default": None},
                ],
                "connect.internal.type": "MapEntry",
            },
            "connect.name": f"{_SPACE}.KsqlDataSourceSchema_F",
        }),
    ],
)  # fmt: skip
def test_a_field_is_shown_as_connect_shows_it(field: str, shown: Any) -> None:
    assert _type_of(field) == shown
