"""The records of `_schemas`, byte for byte as Confluent's registry writes them. Pure.

Keys are compared by compaction as bytes, so their JSON has one form: no spaces, the fields in this order. Values leave
out what is empty. One thing is ours: the value of the NOOP record, which Confluent's registry does not look at, keeps
the highest id of each context, so that an id whose schema was deleted for good is not given again after compaction.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
NOOP: Final = "NOOP"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"

# What a damaged or hostile record can make Python raise:
# JSON that is too deep, 1e400 as a version, a field that is missing.
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)

TENANT: Final = "default"
MAX_IDS: Final = "maxIds"


class Key(NamedTuple):
    keytype: str
    subject: str | None = None  # of a context record: the context
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """`value` None is a tombstone."""

    key: Key
    value: dict[str, Any] | None


def encode_key(key: Key) -> bytes:
    fields: dict[str, Any] = {"keytype": key.keytype}
    match key.keytype:
        case "SCHEMA":
            fields |= {"subject": key.subject, "version": key.version, "magic": 1}
        case "CONTEXT":
            fields |= {"tenant": TENANT, "context": key.subject, "magic": 0}
        case _:
            if key.subject is not None:
                fields["subject"] = key.subject
            fields["magic"] = 0
    return encode_json(fields)


def decode_key(data: bytes) -> Key | None:
    """None for a kind that we do not know: it stays as it is."""
    try:
        fields = json.loads(data)
        keytype = fields["keytype"]
        match keytype:
            case "SCHEMA":
                return Key(SCHEMA, str(fields["subject"]), int(fields["version"]))
            case "CONTEXT":
                return Key(CONTEXT, str(fields["context"]))
            case "CONFIG" | "MODE" | "NOOP" | "CLEAR_SUBJECT":
                return Key(keytype, fields.get("subject"))
            case "DELETE_SUBJECT":
                return Key(keytype, str(fields["subject"]))
    except UNREADABLE:
        return None
    return None


def encode_value(value: dict[str, Any] | None) -> bytes | None:
    return None if value is None else encode_json(value)


def decode_value(data: bytes | None) -> dict[str, Any] | None:
    """Raises one of UNREADABLE for what is no JSON object."""
    if data is None:
        return None
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def encode_json(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def noop(max_ids: Mapping[str, int]) -> Record:
    return Record(Key(NOOP), {MAX_IDS: dict(sorted(max_ids.items()))} if max_ids else None)
