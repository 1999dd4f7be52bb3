"""Format strings for records going out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.cli.formats import compile_format, iso_time
from headwater.client.types import FetchedRecord, Header

RECORD = FetchedRecord(
    topic="orders",
    partition=3,
    offset=258,
    timestamp_ms=1_769_860_800_123,
    log_append_time=False,
    key=b"k\xff",
    value="größe".encode(),
    headers=(Header("a", b"1"), Header("b", None)),
    leader_epoch=7,
    producer_id=1000,
    producer_epoch=2,
    attributes=4,
)
EMPTY = RECORD._replace(key=None, value=None, headers=(), timestamp_ms=-1)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        (r"%t %p %o\n", b"orders 3 258\n"),
        ("%k", b"k\xff"),
        ("%v", "größe".encode()),
        ("%T,%K,%V,%H", b"6,2,7,2"),
        ("%e %x %y %a %i", b"7 1000 2 4 42"),
        ("%d", b"1769860800123"),
        ("%d{iso}", b"2026-01-31T12:00:00.123Z"),
        ("%d{%Y/%m/%d %H:%M}", b"2026/01/31 12:00"),
        ("%h", b"a=1 b= "),
        ("%h{%k:%V;}", b"a:1;b:0;"),
        (r"%h{%K{big16}%k}", b"\0\x01a\0\x01b"),
        ("%k{hex} %k{base64}", b"6bff a/8="),
        ("%v{json}", '"größe"'.encode()),
        ("%o{hex}", b"102"),
        ("%o{big32}", b"\0\0\x01\x02"),
        ("%o{little16}", b"\x02\x01"),
        ("%o{big8}", b"\x02"),
        ("100%% %{%}", b"100% {}"),
        (r"\t\\\x41\xff\0", b"\t\\A\xff\0"),
        ("ü", "ü".encode()),
        ("", b""),
    ],
)
def test_formats(text: str, rendered: bytes) -> None:
    assert compile_format(text)(RECORD, 42) == rendered


def test_nulls_are_empty() -> None:
    assert compile_format("[%k|%v|%h|%K|%V|%d|%d{iso}]")(EMPTY, 1) == b"[|||0|0|-1|-]"


@pytest.mark.parametrize("text", ["%", "%q", "%k{rot13}", "%o{base64}", "%k{hex", r"\q", r"\xZZ", "%h{%t}", "\\"])
def test_nonsense_is_refused_before_anything_is_read(text: str) -> None:
    with pytest.raises(UserError, match="Cannot read the format"):
        compile_format(text)


def test_any_timestamp_can_be_shown() -> None:
    assert iso_time(2**63 - 1) == str(2**63 - 1)
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    by_year = compile_format("%d{%Y}")
    assert by_year(RECORD._replace(timestamp_ms=0), 1) == b"1970"
    assert by_year(EMPTY, 1) == b"-"
    for beyond in (1_769_860_800_123_000, 2**63 - 1):  # microseconds, where milliseconds were meant
        assert by_year(RECORD._replace(timestamp_ms=beyond), 1) == b"%d" % beyond


@given(st.text(max_size=20))
def test_any_text_is_a_format_or_a_user_error(text: str) -> None:
    try:
        render = compile_format(text)
    except UserError:
        return
    assert isinstance(render(RECORD, 1), bytes)
