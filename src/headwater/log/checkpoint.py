"""Kafka's small text files: offset checkpoints, leader epochs, partition and directory metadata, the clean-shutdown mark.

    a checkpoint            0 / number of entries / then one entry a line
      offsets               topic partition offset
      leader epochs         epoch start-offset
    partition.metadata      version: 0 / topic_id: <22 characters of URL-safe base64>
    meta.properties         Java properties: version, cluster.id, broker.id (version 0) or node.id (version 1), directory.id
    .kafka_cleanshutdown    {"version":0,"brokerEpoch":-1}; older Kafkas leave it empty

Parsing is pure; what cannot be parsed raises `CheckpointError`, and the caller knows what can be rebuilt.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

from headwater.base.ids import TopicId, TopicPartition
from headwater.base.ports import Disk

Offsets = dict[TopicPartition, int]
Epochs = list[tuple[int, int]]


class CheckpointError(Exception):
    """A file that is not what its name says."""


def _lines(text: bytes) -> list[list[str]]:
    """The entries of a checkpoint of version 0, split at white space."""
    try:
        lines = text.decode().split("\n")
        version, count = int(lines[0]), int(lines[1])
        entries = [line.split() for line in lines[2:] if line.strip()]
    except (ValueError, IndexError):
        raise CheckpointError("it does not begin with a version and a count") from None
    if version != 0:
        raise CheckpointError(f"version {version} is unknown")
    if count != len(entries):
        raise CheckpointError(f"it has {len(entries)} entries, and says {count}")
    return entries


def _checkpoint(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def parse_offsets(text: bytes) -> Offsets:
    try:
        return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in _lines(text)}
    except ValueError:
        raise CheckpointError("a line is not: topic partition offset") from None


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _checkpoint([f"{topic} {number} {offset}" for (topic, number), offset in sorted(offsets.items())])


def parse_epochs(text: bytes) -> Epochs:
    try:
        entries = [(int(epoch), int(start)) for epoch, start in _lines(text)]
    except ValueError:
        raise CheckpointError("a line is not: epoch start-offset") from None
    if entries != sorted(entries):
        raise CheckpointError("the epochs do not grow")
    return entries


def format_epochs(entries: Epochs) -> bytes:
    return _checkpoint([f"{epoch} {start}" for epoch, start in entries])


def format_topic_id(topic_id: TopicId) -> str:
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(text: str) -> TopicId:
    try:
        topic_id = urlsafe_b64decode(text + "==")
    except ValueError:
        topic_id = b""
    if len(topic_id) != 16:
        raise CheckpointError(f"{text!r} is not a topic id")
    return TopicId(topic_id)


def parse_partition_metadata(text: bytes) -> TopicId:
    fields = dict(line.split(": ", 1) for line in text.decode(errors="replace").splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise CheckpointError("it is not: version: 0, topic_id: ...")
    return parse_topic_id(fields["topic_id"].strip())


def format_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}".encode()


def parse_properties(text: bytes) -> dict[str, str]:
    properties = {}
    for raw in text.decode(errors="replace").splitlines():
        line = raw.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def parse_clean_shutdown(text: bytes) -> int:
    """The broker epoch of the broker that shut down; -1 if it is not told."""
    try:
        return int(json.loads(text)["brokerEpoch"]) if text.strip() else -1
    except (ValueError, KeyError, TypeError):
        return -1


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_if_present(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        return None
