"""Kafka's small text files: offset checkpoints, leader epochs, partition and directory metadata, the clean-shutdown
mark.

    a checkpoint            0 / number of entries / then one entry a line
      offsets               topic partition offset
      leader epochs         epoch start-offset
    partition.metadata      version: 0 / topic_id: <22 characters of URL-safe base64>
    meta.properties         Java properties: version, cluster.id, broker.id (version 0) or node.id (version 1),
                            directory.id
    .kafka_cleanshutdown    {"version":0,"brokerEpoch":-1}; older Kafkas leave it empty. Ours also has checksums
                            (`CleanShutdown`)

Parsing is pure; what cannot be parsed raises `CheckpointError`, and the caller knows what can be rebuilt.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.base.checksum import crc32c
from headwater.base.ids import TopicId, TopicPartition
from headwater.base.ports import Disk

Offsets = dict[TopicPartition, int]
Epochs = list[tuple[int, int]]

_KAFKAS_MARK: Final = {"version", "brokerEpoch"}


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
    if lines[-1].strip():
        raise CheckpointError("its last line is cut off")  # a power loss may have left less of a number
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
    starts = [start for _, start in entries]
    if entries != sorted(entries) or starts != sorted(starts):
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


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """What the mark says. The checksums tell files that have changed since from those that were left there.

    A checkpoint has none, and a wrong offset in it may look like a right one. Marks of Apache Kafka have no checksums.
    """

    broker_epoch: int = -1
    checkpoints: Mapping[str, int] = field(default_factory=dict)  # CRC-32C of the file, by its name
    epochs: Mapping[str, int] = field(default_factory=dict)  # `crc_of_epochs`, by partition


def parse_clean_shutdown(text: bytes) -> CleanShutdown | None:
    """None if the mark itself is damaged: then it says nothing."""
    if not text.strip():
        return CleanShutdown()
    try:
        content = json.loads(text)
        crc = content.pop("crc", None)
        mark = CleanShutdown(
            int(content["brokerEpoch"]), dict(content.get("checkpoints", {})), dict(content.get("leaderEpochs", {}))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if crc is None and content.keys() <= _KAFKAS_MARK:
        return mark
    return mark if crc == crc32c(_canonical(content)) else None


def format_clean_shutdown(mark: CleanShutdown) -> bytes:
    content = {
        "version": 0,
        "brokerEpoch": mark.broker_epoch,
        "checkpoints": dict(mark.checkpoints),
        "leaderEpochs": dict(mark.epochs),
    }
    return _canonical({**content, "crc": crc32c(_canonical(content))})


def _canonical(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def crc_of_epochs(text: bytes | None) -> int:
    """Of what a file of leader epochs says, however it is laid out; -1 if it says nothing that makes sense."""
    try:
        return crc32c(format_epochs([] if text is None else parse_epochs(text)))
    except CheckpointError:
        return -1


def read_if_present(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        return None
