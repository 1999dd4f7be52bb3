"""TopicFiles in the test kit, and what is in its files."""

import json
from pathlib import Path
from typing import Any

from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.testing.connect import SinkKit


def kit(path: Path, **config: str) -> SinkKit:
    props = {name.replace("_", "."): value for name, value in config.items()}
    return SinkKit(TopicFilesConnector, {"path": str(path), "format": "json", "flush.size": "3", **props})


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for data in contents(path).values() for line in data.splitlines()]


def put_range(sink: SinkKit, until: int) -> None:
    """Records as Kafka has them: the offset says what is in one."""
    while sink.next_offset < until:
        n = sink.next_offset
        sink.put({"n": n, "kind": "abc"[n * n % 3]})
