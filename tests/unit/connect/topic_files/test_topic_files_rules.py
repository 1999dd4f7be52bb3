"""TopicFiles' pure parts: directories, names, and where files end."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.locations import HdfsLocation, S3Location, location_of
from headwater.connect.connectors.topic_files.names import FileName, HiddenName
from headwater.connect.connectors.topic_files.partitioners import NULL_VALUE, by_fields, by_partition, by_time, escape
from headwater.connect.connectors.topic_files.rotation import Cut, Entry, Limits
from headwater.connect.data import schema as s
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError


def record(value: Any, timestamp_ms: int | None = None) -> SinkRecord:
    return SinkRecord(topic="t", partition=3, offset=0, value=value, timestamp_ms=timestamp_ms)


# Directories


def test_the_default_directory_is_that_of_the_partition_in_kafka_whatever_transforms_did() -> None:
    assert by_partition(record("x").replaced(topic="other", partition=9)) == "partition=3"


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        ("plain", "f=plain"),
        ("a/../b", "f=a%2F..%2Fb"),
        ("100%=x:y", "f=100%25%3Dx%3Ay"),
        ("nul\0\n", "f=nul%00%0A"),
        ("süß +", "f=süß +"),
        ("", f"f={NULL_VALUE}"),
        (None, f"f={NULL_VALUE}"),
        (7, "f=7"),
        (True, "f=true"),
        (Decimal("1E+2"), "f=100"),
        (date(2026, 1, 2), "f=2026-01-02"),
    ],
)
def test_a_field_becomes_a_directory_as_hive_names_it(value: Any, directory: str) -> None:
    assert by_fields(["f"])(record({"f": value})) == directory


def test_several_fields_are_directories_in_each_other() -> None:
    schema = s.struct([("a", s.STRING), ("b=", s.INT32)])
    assert by_fields(["b=", "a"])(record(Struct(schema, {"a": "x", "b=": 1}))) == "b%3D=1/a=x"


@pytest.mark.parametrize("value", [{}, "text", {"f": 1.5}, {"f": datetime(2026, 1, 1, tzinfo=UTC)}, {"f": [1]}, {"f": "x" * 254}, {"f": "\ud800"}])  # fmt: skip
def test_what_has_no_directory_is_an_error_of_the_record(value: Any) -> None:
    with pytest.raises(DataError):
        by_fields(["f"])(record(value))


def test_the_hour_is_that_of_the_zone() -> None:
    at = int(datetime(2026, 3, 29, 0, 59, tzinfo=UTC).timestamp() * 1000)
    berlin = by_time(ZoneInfo("Europe/Berlin"))
    assert by_time(ZoneInfo("UTC"))(record("x", at)) == "year=2026/month=03/day=29/hour=00"
    assert berlin(record("x", at)) == "year=2026/month=03/day=29/hour=01"
    assert berlin(record("x", at + 60_000)) == "year=2026/month=03/day=29/hour=03"  # summer begins
    with pytest.raises(DataError, match="no timestamp"):
        berlin(record("x"))
    with pytest.raises(DataError, match="between the years"):
        berlin(record("x", 253_402_300_799_999))


def test_nothing_that_separates_paths_is_left() -> None:
    assert not set(escape("".join(map(chr, range(300))))) & set('/\\:"*?\0=')


# Names


def test_names_are_read_as_they_are_written() -> None:
    name = FileName("a.b-c_d", 3, 5, 12_345_678_901, "avro")
    assert name.text(10) == "a.b-c_d+3+0000000005+12345678901.avro"
    assert FileName.parse(name.text(10)) == FileName.parse(name.text(1)) == name
    hidden = HiddenName(3, 5, 9, 4, 11, "0a1b", "avro", ready=True)
    assert hidden.text() == ".3+5+9+4+11+0a1b.avro.ready"
    assert HiddenName.parse(hidden.text()) == hidden
    assert HiddenName.parse(hidden._replace(ready=False).text()) == hidden._replace(ready=False)


@pytest.mark.parametrize("text", ["t+0+1+2.csv", "t+0+1.json", ".t+0+1+2.json.part", "t+0+1+2.json~", "t+x+1+2.json", "_SUCCESS"])  # fmt: skip
def test_files_of_others_are_not_ours(text: str) -> None:
    assert FileName.parse(text) is None
    assert HiddenName.parse(text) is None


def test_a_finished_file_belongs_to_the_cut_that_has_its_offsets() -> None:
    hidden = HiddenName(0, 5, 9, 4, 11, "a", "json")
    assert hidden.in_cut(FileName("t", 0, 4, 11, "json"))
    assert not hidden.in_cut(FileName("t", 0, 0, 3, "json"))
    assert not hidden.in_cut(FileName("t", 1, 4, 11, "json"))
    assert not hidden.in_cut(FileName("t", 0, 12, 12, "json"))


# Where files end

OFF = Limits(records=1000, bytes_max=0, interval_ms=0, files=100)


def entry(
    offset: int, directory: str = "d", *, at: int | None = None, size: int = 1, schema: Schema | None = None
) -> Entry:
    return Entry(offset, at, directory, schema, offset, size)


def cuts(entries: list[Entry], limits: Limits) -> list[dict[str, list[int]]]:
    done: list[dict[str, list[int]]] = []
    cut = Cut()

    def finish() -> None:
        done.append({directory: file.data for directory, file in cut.files.items()})

    for each in entries:
        if cut.ends_before(each, limits):
            finish()
            cut = Cut()
        if cut.add(each, limits):
            finish()
            cut = Cut()
    return done


def test_a_file_ends_with_its_last_record() -> None:
    limits = Limits(3, 0, 0, 100)
    assert cuts([entry(n) for n in range(7)], limits) == [{"d": [0, 1, 2]}, {"d": [3, 4, 5]}]


def test_all_files_of_a_partition_end_with_the_one_that_is_full() -> None:
    limits = Limits(2, 0, 0, 100)
    entries = [entry(0, "a"), entry(1, "b"), entry(2, "a"), entry(3, "b"), entry(4, "b")]
    assert cuts(entries, limits) == [{"a": [0, 2], "b": [1]}, {"b": [3, 4]}]


def test_a_file_ends_before_the_record_that_makes_it_too_large() -> None:
    limits = Limits(1000, 10, 0, 100)
    entries = [entry(0, size=6), entry(1, size=4), entry(2, size=1), entry(3, size=50), entry(4, size=1)]
    assert cuts(entries, limits) == [{"d": [0, 1]}, {"d": [2]}, {"d": [3]}]


def test_time_is_that_of_the_records() -> None:
    limits = Limits(1000, 0, 100, 100)
    times = [None, 50, 149, 10, 150, 249, 250]
    assert cuts([entry(n, at=at) for n, at in enumerate(times)], limits) == [{"d": [0, 1, 2, 3]}, {"d": [4, 5]}]


def test_another_schema_has_another_file() -> None:
    entries = [entry(0, schema=s.INT32), entry(1, schema=s.STRING), entry(2, "e", schema=s.INT32), entry(3, "e")]
    assert cuts(entries, OFF) == [{"d": [0]}, {"d": [1], "e": [2]}]


def test_one_directory_too_many_ends_the_open_files() -> None:
    assert cuts([entry(n, str(n)) for n in range(5)], Limits(1000, 0, 0, 2)) == [{"0": [0], "1": [1]}, {"2": [2], "3": [3]}]  # fmt: skip


# Configs


@pytest.mark.parametrize(("given", "path"), [("/a b", "/a b"), ("rel/x", "rel/x"), ("file:///a%20b", "/a b")])
def test_local_paths(given: str, path: str) -> None:
    assert str(location_of(TopicFilesConnector.config_def.parse({"path": given}))) == path


def test_places_elsewhere() -> None:
    parse = TopicFilesConnector.config_def.parse
    keys = {"aws.access.key.id": "me", "aws.secret.access.key": "x"}
    assert location_of(parse({"path": "s3://bucket/a/b/", **keys})) == S3Location(
        "bucket", "a/b", "us-east-1", "", "me", "x"
    )
    assert location_of(parse({"path": "s3://bucket", "s3.endpoint": "http://h:1"})) == S3Location(
        "bucket", "", "us-east-1", "http://h:1", "", ""
    )
    assert location_of(parse({"path": "webhdfs://h/a%20b"})) == HdfsLocation("h", 9870, Path("/a b"), "")
    assert location_of(parse({"path": "webhdfs://h:1/a", "webhdfs.user": "me"})) == HdfsLocation(
        "h", 1, Path("/a"), "me"
    )


@pytest.mark.parametrize(
    "given",
    ["", "s3://", "s3://host:9000/x", "s3://b/x?y", "s3://key:secret@b", "s3a://b", "hdfs://h:9000/x", "file://host/x", "gs://b", "webhdfs://h", "webhdfs://h:x/y"],
)  # fmt: skip
def test_other_places_are_refused_with_words(given: str) -> None:
    found = TopicFilesConnector.config_def.validate({"path": given})
    assert len(found["path"].errors) == 1


@pytest.mark.parametrize(
    ("props", "name"),
    [
        ({"partitioner": "field"}, "partition.field.name"),
        ({"format.class": "x"}, "format"),
        ({"rotate.schedule.interval.ms": "1"}, "rotate.interval.ms"),
        ({"timezone": "Middle/Earth"}, "timezone"),
        ({"timezone": "../x"}, "timezone"),
        ({"flush.size": "0"}, "flush.size"),
        ({"format": "csv"}, "format"),
        ({"store.url": "http://h"}, "s3.endpoint"),
        ({"aws.access.key.id": "me"}, "aws.access.key.id"),
    ],
)
def test_wrong_configs_are_told_by_property(props: dict[str, str], name: str) -> None:
    given = {"path": "/x", **props}
    found = TopicFilesConnector.config_def.validate(given)
    TopicFilesConnector().validate(given, found)
    assert [each for each, value in found.items() if value.errors] == [name]
