"""What changed between two schemas, in words."""

import json

import pytest

from headwater.cli.schema_diff import schema_diff


def record(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string", "default": ""}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (record(A, B), record(B, A), []),  # the order of fields is no change
        (record(A), record({"name": "a", "type": {"type": "int"}}), []),
        (record(A), record(A, B), ["+ fields.b.type: string", "+ fields.b.default: "]),
        (record(A, B), record(B), ["- fields.a.type: int"]),
        (record(A), record({**A, "type": "long"}), ["~ fields.a.type: int -> long"]),
        (record(A), record({**A, "type": ["null", "int"]}), ['~ fields.a.type: int -> ["null", "int"]']),
        ('"int"', '"long"', ["~ schema: int -> long"]),
        (
            "message A {\n  int32 a = 1;\n}",
            "message A {\n  int64 a = 1;\n}",
            ["-  int32 a = 1;", "+  int64 a = 1;"],
        ),
    ],
)
def test_differences(old: str, new: str, lines: list[str]) -> None:
    assert schema_diff(old, new) == lines


def test_a_deep_schema_is_no_trouble() -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    assert schema_diff(deep, deep) == []
