"""What `headwater schema` makes of a file, and of the registry's reasons."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.registry_calls import registry_error
from headwater.cli.schema_files import comparable, guessed_type, read_schema
from headwater.cli.schema_reasons import reasons


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("a.avsc", '{"type": "object"}', "AVRO"),
        ("a.proto", "{}", "PROTOBUF"),
        ("a.json", '{"type": "object"}', "JSON"),
        ("a.json", '{"$schema": "x", "type": "string"}', "JSON"),
        ("-", '{"properties": {}}', "JSON"),
        ("a.json", '{"type": "record", "name": "R", "fields": []}', "AVRO"),
        ("-", '"string"', "AVRO"),
        ("-", '["null", "int"]', "AVRO"),
        ("-", "{", "AVRO"),
        ("-", '// a comment\n\nsyntax = "proto3";', "PROTOBUF"),
        ("a.txt", 'edition = "2023";', "PROTOBUF"),
    ],
)
def test_the_type_of_a_file(file: str, text: str, kind: str) -> None:
    assert guessed_type(file, text) == kind


@pytest.mark.parametrize(("data", "why"), [(b"", "no schema"), (b" \n", "no schema"), (b"\xff\xfe", "not text")])
def test_files_that_hold_no_schema(data: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_bytes(data)
    with pytest.raises(UserError, match=why):
        read_schema(str(file))


def test_a_file_that_cannot_be_compared_is_told_and_one_of_protobuf_is_laid_out_as_registered_ones_are() -> None:
    with pytest.raises(UserError, match="not JSON"):
        comparable("f", "{", "AVRO")
    assert comparable("f", 'syntax="proto3";message M{int32 n=1;}', "PROTOBUF") == (
        'syntax = "proto3";\n\nmessage M {\n  int32 n = 1;\n}\n'
    )
    needs_another = 'syntax = "proto3"; import "other.proto"; message M { Other o = 1; }'
    assert comparable("f", needs_another, "PROTOBUF") == needs_another


@pytest.mark.parametrize(
    "level", ["{compatibility: 'FULL'}", "{validateFields: 'false', compatibility: 'FULL'}"], ids=["ours", "confluents"]
)
@pytest.mark.parametrize("place", ["path:'/fields/0'", "additionalInfo:'q'"])
def test_reasons_are_sentences(level: str, place: str) -> None:
    first = f"{{errorType:'KIND', description:'The field 'q' is, 'maybe', missing', {place}}}"
    found = reasons([first, "{oldSchemaVersion: 3}", "{oldSchema: '{}'}", level, "something else"])
    assert found == (["The field 'q' is, 'maybe', missing (KIND)", "something else"], "version 3, FULL")


def test_errors_say_what_can_be_done() -> None:
    assert "schema list" in registry_error(404, {"error_code": 40401, "message": "Subject 's' not found."}).hint
    assert "READWRITE" in registry_error(422, {"error_code": 42205, "message": "s is in read-only mode"}).hint
    assert registry_error(422, {"error_code": 42201, "message": "Invalid schema"}).hint == ""
    assert registry_error(502, None).what == "The registry answered 502"
