"""Lines in and out of the console scripts, durations and dates of resets, patterns of offsets, configs, JSON plans."""

from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka import configs, consumer_groups, dump_log
from headwater.cli.kafka.configs import parse_configs
from headwater.cli.kafka.consumer_groups_describe import assignment_text
from headwater.cli.kafka.consumer_groups_reset import datetime_ms, duration_ms
from headwater.cli.kafka.delete_records import read_offsets
from headwater.cli.kafka.line_reader import LineReader
from headwater.cli.kafka.message_formatter import DefaultFormatter, Unreadable, make_formatter
from headwater.cli.kafka.options import Options, Stop, Usage
from headwater.cli.kafka.transactions import table
from headwater.client.types import FetchedRecord, Header

BOTH = {"parse.key": "true", "parse.headers": "true"}


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", ((), None, b"a\tb")),
        ({"parse.key": "true"}, b"k\tv\tw", ((), b"k", b"v\tw")),
        ({"parse.key": "true", "key.separator": "::"}, b"k::v", ((), b"k", b"v")),
        (BOTH, b"a:1,b:2\tk\tv", ((("a", b"1"), ("b", b"2")), b"k", b"v")),
        ({**BOTH, "null.marker": "N"}, b"N\tN\tN", ((), None, None)),
        ({**BOTH, "null.marker": "N"}, b"a:N\tk\tv", ((("a", None),), b"k", b"v")),
        ({"parse.key": "true", "ignore.error": "true"}, b"alone", ((), None, b"alone")),
        ({"parse.key": "true"}, b"\tv", ((), b"", b"v")),
    ],
)
def test_lines_become_records(properties: dict[str, str], line: bytes, expected: tuple[Any, ...]) -> None:
    record = LineReader(properties).record(line)
    assert (tuple((h.key, h.value) for h in record.headers), record.key, record.value) == expected


def test_a_line_that_lacks_its_key_is_named() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.record(b"k\tv")
    with pytest.raises(Stop) as stopped:
        reader.record(b"no key")
    assert stopped.value.message.endswith("No key separator found on line number 2: 'no key'")
    with pytest.raises(Stop, match="in pair 'x' on line number 1"):
        LineReader(BOTH).record(b"x\tk\tv")
    with pytest.raises(Stop, match="may not be equal"):
        LineReader({"headers.delimiter": ","})
    with pytest.raises(Stop, match=r"no property 'parse\.keys'"):
        LineReader({"parse.keys": "true"})


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"key.separator": ""}, "key.separator may not be empty"),
        ({"headers.delimiter": ""}, "headers.delimiter may not be empty"),
        ({"headers.separator": ""}, "headers.separator may not be empty"),
        ({"headers.key.separator": ""}, "headers.key.separator may not be empty"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"null.marker": ",", "key.separator": ":"}, "null.marker and headers.separator may not be equal"),
        ({"null.marker": "\t", "key.separator": "|"}, "null.marker and headers.delimiter may not be equal"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator may not be equal"),
    ],
)
def test_separators_that_cannot_be_told_apart(properties: dict[str, str], said: str) -> None:
    """An empty one was a traceback at the first line."""
    with pytest.raises(Stop) as stopped:
        LineReader(properties).record(b"a:1\tk\tv")
    assert stopped.value.message == said


def test_headers_end_with_a_separator_or_not() -> None:
    """As Java splits a text: nothing comes of what is empty at its end."""
    record = LineReader(BOTH).record(b"a:1,b:2,,\tk\tv")
    assert record.headers == (Header("a", b"1"), Header("b", b"2"))
    assert LineReader(BOTH).record(b",\tk\tv").headers == ()
    with pytest.raises(Stop, match="No header key separator found in pair ''"):
        LineReader(BOTH).record(b"\tk\tv")
    with pytest.raises(Stop, match="No header key separator found in pair ''"):
        LineReader(BOTH).record(b"a:1,,b:2\tk\tv")


def test_the_key_of_a_header_is_not_null() -> None:
    with pytest.raises(Stop, match="Header keys should not be equal to the null marker 'N' as they can't be null"):
        LineReader({**BOTH, "null.marker": "N"}).record(b"N:1\tk\tv")


def fetched(key: bytes | None = b"k", value: bytes | None = b"v", *headers: Header) -> FetchedRecord:
    return FetchedRecord("t", 3, 7, 99, False, key, value, headers, 0, -1, -1, 0)


@pytest.mark.parametrize(
    ("properties", "record", "text"),
    [
        ({}, fetched(), b"v\n"),
        ({"print.key": "true"}, fetched(None, None), b"null\tnull\n"),
        ({"print.key": "true", "key.separator": "=", "null.literal": "-"}, fetched(None), b"-=v\n"),
        ({"print.value": "false"}, fetched(), b""),
        (
            {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")},
            fetched(b"k", b"v", Header("a", b"1"), Header("b", None)),
            b"CreateTime:99\tPartition:3\tOffset:7\ta:1,b:null\tk\tv\n",
        ),
        ({"print.headers": "true", "line.separator": ";"}, fetched(), b"NO_HEADERS\tv;"),
        (
            {"value.deserializer": "org.apache.kafka.common.serialization.LongDeserializer"},
            fetched(b"", bytes(7) + b"\5"),
            b"5\n",
        ),
    ],
)
def test_records_become_lines(properties: dict[str, str], record: FetchedRecord, text: bytes) -> None:
    assert DefaultFormatter(properties).text(record) == text


def test_bytes_that_are_no_number() -> None:
    with pytest.raises(Unreadable):
        DefaultFormatter({"value.deserializer": "IntegerDeserializer"}).text(fetched())


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        ("Boolean", b"\1", b"true\n"),
        ("Boolean", b"\0", b"false\n"),
        ("Boolean", b"\2", None),
        ("Boolean", b"", None),
        ("UUID", b"123E4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000\n"),
        ("UUID", b"\xff", None),
        ("UUID", b"123", None),
    ],
)
def test_booleans_and_uuids(kind: str, data: bytes, shown: bytes | None) -> None:
    formatter = DefaultFormatter({"value.deserializer": f"org.apache.kafka.common.serialization.{kind}Deserializer"})
    record = fetched()._replace(value=data)
    if shown is not None:
        assert formatter.text(record) == shown
        return
    with pytest.raises(Unreadable):
        formatter.text(record)


def test_a_record_that_cannot_be_printed_is_named_or_left_out(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    formatter = DefaultFormatter({"value.deserializer": "BooleanDeserializer"})
    records = [fetched()._replace(value=b"\1"), fetched()._replace(value=b"no", offset=77)]
    with pytest.raises(UserError, match=r"^Cannot print \S+-\d+ offset 77"):
        formatter.write(records, skip_errors=False)
    assert capsysbinary.readouterr().out == b"true\n"
    formatter.write(records, skip_errors=True)
    assert capsysbinary.readouterr().out == b"true\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT-5M", -300_000),
        ("-PT5M", -300_000),
        ("pt0.25s", 250),
        ("PT-1.5S", -1500),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1D", "an hour"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UserError, match="Text cannot be parsed to a Duration"):
        duration_ms(text)


def test_dates_are_utc_unless_they_say_otherwise() -> None:
    assert datetime_ms("1970-01-01T00:00:01.500") == 1500
    assert datetime_ms("1970-01-01T00:00:01.500Z") == 1500
    assert datetime_ms("1970-01-01T02:00:00.000+02:00") == 0
    with pytest.raises(UserError, match="does not contain a 'T'"):
        datetime_ms("1970-01-01")
    with pytest.raises(UserError, match="Unparseable"):
        datetime_ms("Tuesday")


def test_configs_in_brackets() -> None:
    assert parse_configs("a=1,b=[x,y],c=z=2") == {"a": "1", "b": "x,y", "c": "z=2"}
    with pytest.raises(Stop, match="must be in the format"):
        parse_configs("a=1,b")


def test_assignments_as_text() -> None:
    held = [TopicPartition("u", 1), TopicPartition("t", 10), TopicPartition("t", 2)]
    assert assignment_text(held) == "t:2,10;u:1"
    assert assignment_text([]) == "-"


def test_offsets_of_a_json_file() -> None:
    one = '{"topic": "t", "partition": 0, "offset": 5}'
    assert read_offsets(f'{{"version": 1, "partitions": [{one}]}}') == {TopicPartition("t", 0): 5}
    for text, message in (
        ("{", "not a valid JSON"),
        ("[]", "Missing partitions"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        (f'{{"partitions": [{one}, {one}]}}', "duplicate topic partitions: t-0"),
        ('{"partitions": [{"topic": "t"}]}', "A partition needs"),
    ):
        with pytest.raises(Stop, match=message):
            read_offsets(text)


def test_tables_with_tabs() -> None:
    assert table(["Id", "State"], [["abc", None]]) == "Id \tState\t\nabc\tNone \t\n"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", b""),
        (
            "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
            b'{"key":{"type":2,"data":{"group":"g"}},"value":null}\n',
        ),
    ],
)
def test_formatters_of_internal_topics_print_records_of_their_type(
    capsysbinary: pytest.CaptureFixture[bytes], name: str, line: bytes
) -> None:
    formatter = make_formatter(Options({"formatter": [name]}))
    tombstone = FetchedRecord("__consumer_offsets", 0, 0, 0, False, b"\0\2\0\1g", None, (), 0, -1, -1, 0)
    keyless = tombstone._replace(key=None, value=b"x")
    formatter.write([tombstone, keyless], skip_errors=False)
    assert capsysbinary.readouterr().out == line


def test_a_formatter_that_is_not_here_is_named() -> None:
    with pytest.raises(Usage, match=r"^no\.such\.ShareGroupStateMessageFormatter$"):
        make_formatter(Options({"formatter": ["no.such.ShareGroupStateMessageFormatter"]}))


def test_an_index_without_entries_is_said_to_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / f"{0:020}.index"
    index.touch()
    for more in ([], ["--index-sanity-check"]):
        assert dump_log.script(["--files", str(index), *more]) == 0
        assert capsys.readouterr().out == f"Dumping {index}\n{index} is empty.\n"


@pytest.mark.parametrize("partitions", ["0-3", "x", "0,", "-1"])
def test_partitions_of_a_reset_are_numbers(capsys: pytest.CaptureFixture[str], partitions: str) -> None:
    arguments = ["--bootstrap-server", "localhost:1", "--reset-offsets", "--group", "g", "--to-earliest", "--dry-run"]
    assert consumer_groups.script([*arguments, "--topic", f"t:{partitions}"]) == 1
    wrong = partitions.split(",")[-1]
    assert capsys.readouterr().err.startswith(f"Invalid partition '{wrong}' specified in topic arg 't:{partitions}'\n")


@pytest.mark.parametrize("action", ["--describe", "--alter"])
def test_topics_have_no_defaults_of_their_own(capsys: pytest.CaptureFixture[str], action: str) -> None:
    arguments = ["--bootstrap-server", "localhost:1", "--entity-type", "topics", "--entity-default", action]
    assert configs.script(arguments) == 1
    assert capsys.readouterr().err == f"--entity-default must not be specified with {action} of topics\n"
