"""Files with schemas, for commands: what they say, and of which type they are."""

import json
import re
import sys
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError

_ENDINGS: Final = {".avsc": "AVRO", ".proto": "PROTOBUF"}
_JSON_SCHEMA_NAMES: Final = frozenset(
    ("$schema", "$id", "$ref", "$defs", "definitions", "properties", "allOf", "anyOf", "oneOf")
)
_JSON_SCHEMA_TYPES: Final = ("object", "number", "integer")  # Avro has none of these
_PROTOBUF: Final = re.compile(r"(?:\s|//.*\n)*(?:syntax|edition)\s*=")


def read_schema(file: str) -> str:
    """Its text; `-` is stdin."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as problem:
        raise UserError(f"Cannot read the schema in {file}", problem.strerror or str(problem)) from None
    except UnicodeDecodeError as problem:
        raise UserError(f"The schema in {file} is not text", str(problem), "A schema is text in UTF-8") from None
    if not text.strip():
        raise UserError(f"There is no schema in {file}", "it is empty")
    return text


def guessed_type(file: str, text: str) -> str:
    """By the file's ending, else by what it says."""
    known = _ENDINGS.get(Path(file).suffix.lower())
    if known is not None:
        return known
    if _PROTOBUF.match(text):
        return "PROTOBUF"
    try:
        document = json.loads(text)
    except ValueError:
        return "AVRO"
    if not isinstance(document, dict):
        return "AVRO"
    says_so = not _JSON_SCHEMA_NAMES.isdisjoint(document) or document.get("type") in _JSON_SCHEMA_TYPES
    return "JSON" if says_so else "AVRO"


def comparable(file: str, text: str, kind: str) -> str:
    """A file as it can be held against a registered schema of this type. Raises UserError for what is none."""
    if kind != "PROTOBUF":
        try:
            json.loads(text)
        except ValueError as problem:
            raise UserError(
                f"The schema in {file} is not JSON", str(problem), f"The subject has schemas of the type {kind}"
            ) from None
        return text
    from headwater.schemas import SchemaError, SchemaType, parse

    try:
        return parse(SchemaType.PROTOBUF, text).canonical
    except SchemaError:  # it may import what only the registry has: its lines are compared as they stand
        return text
