"""Records as documents: JSON lines and YAML, going out of `consume` and `produce`.

Text that is UTF-8 stands as it is; other bytes go to `key_base64`, `value_base64`, which `produce -f json` reads back.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from headwater.cli.output import to_yaml
from headwater.client.types import FetchedRecord, ProducedRecord


def record_document(record: FetchedRecord) -> dict[str, Any]:
    document: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    document["timestamp"] = record.timestamp_ms
    put_bytes(document, "key", record.key)
    put_bytes(document, "value", record.value)
    if record.headers:
        document["headers"] = [_header(key, value) for key, value in record.headers]
    return document


def _header(key: str, value: bytes | None) -> dict[str, Any]:
    document: dict[str, Any] = {"key": key}
    put_bytes(document, "value", value)
    return document


def put_bytes(document: dict[str, Any], name: str, data: bytes | None) -> None:
    if data is None:
        document[name] = None
        return
    try:
        document[name] = data.decode("utf-8")
    except UnicodeDecodeError:
        document[f"{name}_base64"] = b64encode(data).decode("ascii")


def document_line(output: str, document: dict[str, Any]) -> str:
    """One line of JSON, or one YAML document."""
    if output == "yaml":
        return to_yaml(document, explicit_start=True)
    return json.dumps(document, ensure_ascii=False) + "\n"


def produced_lines(output: str, produced: Iterable[ProducedRecord]) -> str:
    return "".join(
        document_line(
            output,
            {"topic": each.topic, "partition": each.partition, "offset": each.offset, "timestamp": each.timestamp_ms},
        )
        for each in produced
    )
