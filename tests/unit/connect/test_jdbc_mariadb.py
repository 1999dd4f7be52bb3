"""The dialect of MariaDB and MySQL without a server: addresses, types, SQL."""

import ssl
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

import pytest

from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.jdbc_dialects import from_database
from headwater.connect.connectors.jdbc_mariadb import Mariadb, options_of, schema_of
from headwater.connect.connectors.jdbc_rows import Row, create_table, statement_of
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema
from headwater.connect.errors import ConfigError, ConnectError, DataError
from headwater.connect.plugins import Catalog


def dialect() -> Mariadb:
    return Mariadb(urlsplit("mariadb://host/shop"), None, None)


def test_an_address_is_read_as_the_drivers_for_java_read_it() -> None:
    found = options_of(urlsplit("mysql://us%40er:p%2Fw@db:3307/shop?connectTimeout=2500&socketTimeout=60000"))
    assert found.connection == {
        "host": "db", "port": 3307, "database": "shop", "user": "us@er", "password": "p/w", "connect_timeout": 2,
        "read_timeout": 60, "write_timeout": 60, "ssl": None,
    }  # fmt: skip
    assert options_of(urlsplit("mariadb://db/shop?user=u&password=p")).connection["port"] == 3306
    assert options_of(urlsplit("mariadb:///shop?localSocket=/run/s")).connection["unix_socket"] == "/run/s"
    assert options_of(urlsplit("mariadb://db/shop?zeroDateTimeBehavior=CONVERT_TO_NULL")).zero_dates_are_null


@pytest.mark.parametrize(
    ("mode", "checks", "host"),
    [
        ("trust", ssl.CERT_NONE, False),
        ("VERIFY_CA", ssl.CERT_REQUIRED, False),
        ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_tls_is_as_strict_as_its_mode(mode: str, checks: ssl.VerifyMode, host: bool) -> None:
    context = options_of(urlsplit(f"mariadb://db/shop?sslMode={mode}")).connection["ssl"]
    assert (context.verify_mode, context.check_hostname) == (checks, host)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("mariadb://db/shop?allowMultiQueries=true", "allowMultiQueries is not supported"),
        ("mariadb://db/shop?sslMode=maybe", "sslMode is one of"),
        ("mariadb://db/shop?socketTimeout=1m", "socketTimeout is a number"),
        ("mariadb://db/shop?sslMode=verify-ca&serverSslCert=/nowhere.pem", "serverSslCert"),
        ("mariadb://a,b/shop", "one host"),
        ("mariadb://db", "a database is needed"),
    ],
)
def test_an_address_that_cannot_be_taken_is_told(address: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        options_of(urlsplit(address))


@pytest.mark.parametrize("url", ["jdbc:mariadb://u:pa55word@db:port/shop", "jdbc:mysql://u:pa55word@db/shop?x=y"])
def test_a_wrong_address_is_told_at_its_property_and_without_its_password(url: str) -> None:
    config = {"name": "c", "connector.class": "JdbcSink", "topics": "t", "connection.url": url}
    checked = validate(Catalog(installed=False), config)
    errors = {name: each.errors for name, each in checked.values.items() if each.errors}
    assert list(errors) == ["connection.url"]
    assert "pa55word" not in str(errors)


@pytest.mark.parametrize(
    ("kind", "whole_type", "expected"),
    [
        ("tinyint", "tinyint(1)", s.INT8),
        ("tinyint", "tinyint(3) unsigned", s.INT16),
        ("int", "int(10) unsigned", s.INT64),
        ("mediumint", "mediumint(8) unsigned", s.INT32),
        ("bigint", "bigint(20) unsigned", s.INT64),
        ("decimal", "decimal(10,2)", s.decimal_schema(2)),
        ("bit", "bit(1)", s.BOOLEAN),
        ("bit", "bit(9)", s.BYTES),
        ("mediumblob", "mediumblob", s.BYTES),
        ("varbinary", "varbinary(9)", s.BYTES),
        ("enum", "enum('a','unsigned')", s.STRING),
        ("json", "json", s.STRING),
        ("uuid", "uuid", s.STRING),
        ("timestamp", "timestamp", s.TIMESTAMP_SCHEMA),
    ],
)
def test_columns_have_types(kind: str, whole_type: str, expected: Schema) -> None:
    assert schema_of(kind, whole_type, 2 if kind == "decimal" else None) == expected


@pytest.mark.parametrize(
    ("mode", "others", "sql"),
    [
        ("upsert", {"b": (s.STRING, "x")}, "INSERT INTO `d`.`t` (`a``%%`, `b`) VALUES (%s, %s) ON DUPLICATE KEY UPDATE `b` = VALUES(`b`)"),
        ("upsert", {}, "INSERT INTO `d`.`t` (`a``%%`) VALUES (%s) ON DUPLICATE KEY UPDATE `a``%%` = `a``%%`"),
        ("update", {"b": (s.STRING, "x")}, "UPDATE `d`.`t` SET `b` = %s WHERE `a``%%` = %s"),
        ("insert", None, "DELETE FROM `d`.`t` WHERE `a``%%` = %s"),
    ],
)  # fmt: skip
def test_statements(mode: str, others: dict[str, Any] | None, sql: str) -> None:
    made = statement_of(dialect(), mode, Row("d.t", {"a`%": (s.INT32, 1)}, others))
    assert made.sql == sql
    assert made.values == ([1, "x"] if mode == "upsert" and others else ["x", 1] if mode == "update" else [1])


def test_a_key_of_text_is_compared_as_kafka_compares_it() -> None:
    made = create_table(dialect(), Row("t", {"k": (s.STRING, ""), "b": (s.BYTES, b"")}, {"v": (s.OPTIONAL_STRING, "")}))
    exact = "CHARACTER SET utf8mb4 /*M!100201 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
    assert made == (
        f"CREATE TABLE `t` (`b` VARBINARY(255) NOT NULL, `k` VARCHAR(255) {exact} NOT NULL, `v` LONGTEXT CHARACTER SET utf8mb4, "
        "PRIMARY KEY (`k`, `b`))"
    )


def test_timestamps_are_written_in_utc_and_what_is_no_number_is_refused() -> None:
    moment = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert dialect().to_parameter(s.TIMESTAMP_SCHEMA, moment) == datetime(2020, 1, 1, 10)  # noqa: DTZ001
    assert dialect().to_parameter(s.FLOAT64, 0.5) == 0.5
    with pytest.raises(DataError, match="no nan"):
        dialect().to_parameter(s.FLOAT64, float("nan"))


def test_columns_of_both_kinds_cannot_be_compared_in_a_zone() -> None:
    made = Mariadb(urlsplit("mariadb://host/shop"), None, None, "Europe/Berlin")
    made._compared_zoned = {"changed"}
    moment = datetime(2020, 7, 1, 10, tzinfo=UTC)
    assert made.compared_moment(["Changed"], moment) == datetime(2020, 7, 1, 10)  # noqa: DTZ001
    assert made.compared_moment(["made"], moment) == datetime(2020, 7, 1, 12)  # noqa: DTZ001
    with pytest.raises(ConnectError, match="all are TIMESTAMP or all are DATETIME"):
        made.compared_moment(["changed", "made"], moment)


def test_times_of_day_come_as_durations() -> None:
    assert from_database(s.TIME_SCHEMA, timedelta(hours=1, microseconds=2999)) == time(1, 0, 0, 2000)
    with pytest.raises(ConnectError, match=r"not of type .*Time"):
        from_database(s.TIME_SCHEMA, timedelta(hours=25))


def test_a_bit_is_true_or_false() -> None:
    assert [from_database(s.BOOLEAN, value) for value in (b"\x00", b"\x01", 0, 1)] == [False, True, False, True]


def test_an_error_is_a_sentence() -> None:
    assert dialect().message(Exception(1062, "Duplicate entry '1'")) == "Duplicate entry '1' (1062)"
    assert dialect().message(Exception()) == "The connection was lost"
    assert dialect().timestamp_parameter(datetime(2020, 1, 1, tzinfo=UTC)).tzinfo is None
