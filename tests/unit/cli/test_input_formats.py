"""Bytes of stdin to records, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.cli.formats import compile_format
from headwater.cli.input_formats import FormatInput, InputParser, UnreadableInput, input_parser
from headwater.cli.record_output import document_line, record_document
from headwater.client.types import FetchedRecord, Header, OutgoingRecord


def _all(parser: InputParser, data: bytes, cut: int = 0) -> list[OutgoingRecord]:
    pieces = [data] if not cut else [data[at : at + cut] for at in range(0, len(data), cut)]
    records = [record for piece in pieces for record in parser.feed(piece)]
    return records + parser.finish()


@pytest.mark.parametrize("cut", [0, 1, 2, 7])
def test_lines(cut: int) -> None:
    records = _all(input_parser(None, None), b"one\n\ntwo\r\nlast", cut)
    assert [record.value for record in records] == [b"one", b"", b"two", b"last"]
    assert all(record.key is None for record in records)


def test_no_record_comes_of_no_input() -> None:
    for parser in (input_parser(None, None), input_parser("json", None), input_parser("%v\\n", None)):
        assert _all(parser, b"") == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("§", "§".encode()),
        ("→", "→".encode()),
        ("\\u2192", "→".encode()),
        ("\\x1f|", b"\x1f|"),
        ("\\\\", b"\\"),
        ("\\", b"\\"),
        ("a\\", b"a\\"),
        ("\\x", b"\\x"),
        ("\udcff", b"\xff"),
    ],
)
def test_what_is_no_escape_in_a_separator_stands_for_itself(typed: str, meant: bytes) -> None:
    """Text beyond ASCII was taken for Latin-1, so that no line had it; a last backslash was a traceback."""
    (record,) = _all(input_parser(None, typed), b"k" + meant + b"v\n")
    assert (record.key, record.value) == (b"k", b"v")


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(UserError, match="The key separator is empty"):
        input_parser(None, "")


@pytest.mark.parametrize("separator", [":", "=>", "\\t"])
def test_the_key_ends_at_the_first_separator(separator: str) -> None:
    raw = separator.replace("\\t", "\t").encode()
    records = _all(input_parser(None, separator), b"k" + raw + b"v" + raw + b"w\nnokey\n" + raw + b"x\n")
    assert [(record.key, record.value) for record in records] == [
        (b"k", b"v" + raw + b"w"),
        (None, b"nokey"),
        (b"", b"x"),
    ]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_json_lines(cut: int) -> None:
    lines = (
        b'{"key": "k", "value": "v", "headers": {"a": "b"}, "partition": 3, "timestamp": 5}\n'
        b"\n"
        b'{"value": null}\n'
        b'{"value": {"x": [1, 2]}, "key": 7}\n'
        b'{"value_base64": "/w==", "headers": [{"key": "a", "value": "1"}, {"key": "a", "value_base64": "/g=="}]}'
    )
    assert _all(input_parser("json", None), lines, cut) == [
        OutgoingRecord(b"v", b"k", (Header("a", b"b"),), 3, 5),
        OutgoingRecord(None),
        OutgoingRecord(b'{"x":[1,2]}', b"7"),
        OutgoingRecord(b"\xff", headers=(Header("a", b"1"), Header("a", b"\xfe"))),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"nonsense", "Line 2 is not JSON"),
        (b"[1]", "Line 2 is not a JSON object"),
        (b'{"partition": "x"}', "Line 2: partition is not a number"),
        (b'{"partition": true}', "Line 2: partition is not a number"),
        (b'{"partition": 2147483648}', "Line 2: partition is not a number of 32 bits"),
        (b'{"timestamp": 9223372036854775808}', "Line 2: timestamp is not a number of 64 bits"),
        (b'{"value_base64": "?"}', "Line 2: value_base64 is not base64"),
        (b'{"headers": [1]}', "Line 2: headers"),
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        _all(input_parser("json", None), b'{"value": "ok"}\n' + line)


@pytest.mark.parametrize("cut", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        (r"%k %v\n", b"a b c\nd e\n", [(b"a", b"b c"), (b"d", b"e")]),
        (r"%k %v\n", b"a b", [(b"a", b"b")]),
        (r"%v\xff", b"one\xfftwo\xff", [(None, b"one"), (None, b"two")]),
        (r"%K{big16}%V{little32}%k%v", b"\0\x01\x02\0\0\0kvv" * 2, [(b"k", b"vv")] * 2),
        (r"%K,%V:%k%v;", b"1,2:kvv;3,0:abc;", [(b"k", b"vv"), (b"abc", b"")]),
        (r"%k{hex}:%v{base64}\n", b"6bff:dg==\n", [(b"k\xff", b"v")]),
        ("%v", b"all\nof it", [(None, b"all\nof it")]),
    ],
)
def test_formats(cut: int, text: str, data: bytes, expected: list[tuple[bytes | None, bytes]]) -> None:
    records = _all(input_parser(text, None), data, cut)
    assert [(record.key, record.value) for record in records] == expected


def test_partition_and_timestamp_can_be_read() -> None:
    records = _all(input_parser(r"%p %d %v\n", None), b"3 1234 x\n")
    assert records == [OutgoingRecord(b"x", partition=3, timestamp_ms=1234)]


@pytest.mark.parametrize("text", ["%k%v", "%o\\n", "%p\\n", "%K%k", "no letters"])
def test_a_format_that_cannot_be_read_by_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        input_parser(text, None)


@pytest.mark.parametrize(
    ("text", "data", "said"),
    [
        (r"%k %v\n", b"a b\nc", "ends inside record 2"),
        (r"%K{big32}%k", b"\0\0\0\x09abc", "ends inside record 1"),
        (r"%V{big8}%v\n", b"\x01ax", "stands where"),
        (r"%K:%k\n", b"x:a\n", "is not a number"),
        (r"%v{hex}\n", b"zz\n", "is not hex"),
    ],
)
def test_input_that_does_not_fit_is_refused(text: str, data: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        _all(input_parser(text, None), data)


_TEXT_OR_BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


def _fetched(key: bytes | None, value: bytes | None, headers: tuple[Header, ...] = ()) -> FetchedRecord:
    return FetchedRecord("t", 0, 1, 2, False, key, value, headers, 0, -1, -1, 0)


@given(_TEXT_OR_BYTES, _TEXT_OR_BYTES, st.lists(st.builds(Header, st.text(max_size=5), _TEXT_OR_BYTES), max_size=3))
def test_what_consume_writes_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    record = _fetched(key, value, tuple(headers))
    line = document_line("json", record_document(record)).encode()
    assert _all(input_parser("json", None), line) == [OutgoingRecord(value, key, tuple(headers), 0, 2)]


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5), st.integers(0, 4))
def test_what_consume_writes_by_lengths_produce_reads_back(pairs: list[tuple[bytes, bytes]], cut: int) -> None:
    text = "%K{big32}%V{big32}%k%v"
    render = compile_format(text)
    data = b"".join(render(_fetched(key, value), 1) for key, value in pairs)
    assert [(record.key, record.value) for record in _all(input_parser(text, None), data, cut)] == pairs


@pytest.mark.parametrize("shape", [None, "json", "%v\\n"])
def test_a_record_without_an_end_tells_what_stands_in_front_of_it(
    monkeypatch: pytest.MonkeyPatch, shape: str | None
) -> None:
    monkeypatch.setattr("headwater.cli.input_formats._UNFINISHED_BYTES_MAX", 20)
    with pytest.raises(UnreadableInput, match="A record of the input does not end") as raised:
        input_parser(shape, None).feed(b'{"value":1}\n' + b"x" * 21)
    assert [record.value for record in raised.value.records] == [b"1" if shape == "json" else b'{"value":1}']


def _step_by_step(parser: FormatInput, data: bytes) -> None:
    """As `finish` goes on, and with an end if it does not."""
    parser._data = data
    while parser._data:
        _, at = parser._record(0, final=True)
        assert at > 0, "it goes round in circles"
        parser._data, parser._number = parser._data[at:], parser._number + 1


@pytest.mark.parametrize(
    ("shape", "data", "said"),
    [
        ("%V:%v", b"2:ab-3:", "Record 2: -3 is no length"),
        ("%p %v\\n", b"0 a\n2147483648 b\n", "Record 2: 2147483648 is no partition"),
        ("%d{big64}%v\\n", bytes(8) + b"a\n" + b"\xff" * 8 + b"b\n", "Record 2: 18446744073709551615 is no timestamp"),
    ],
)
def test_a_number_that_cannot_be_is_refused(shape: str, data: bytes, said: str) -> None:
    """A length below 0 led back to the beginning of its record: the same records were read without end."""
    with pytest.raises(UserError, match=said):
        _step_by_step(FormatInput(shape), data)
