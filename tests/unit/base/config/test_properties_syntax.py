"""Java's .properties syntax."""

import pytest

from headwater.base.config.properties import parse_properties
from headwater.base.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a : = 1", {"a": "= 1"}),
        ("a 1 2", {"a": "1 2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a=1 ", {"a": "1 "}),
        ("# a=1\n! b=2\nc=3", {"c": "3"}),
        ("   # indented comment\na=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two,\\\n\tthree", {"a": "one,two,three"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=one\\\\\\\ntwo", {"a": "one\\two"}),
        ("a=1\\", {"a": "1"}),
        ("a=x\\\n# not a comment", {"a": "x# not a comment"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\:b\\ c=d", {"a:b c": "d"}),
        ("a=\\t\\n\\r\\f", {"a": "\t\n\r\f"}),
        ("a=C:\\dir", {"a": "C:dir"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=é", {"a": "é"}),
        ("", {}),
        ("\n\n", {}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=\\  1", {"a": "  1"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\uzzzz"])
def test_a_malformed_escape_names_its_line(text: str) -> None:
    with pytest.raises(UserError, match="Line 2"):
        parse_properties(text)
