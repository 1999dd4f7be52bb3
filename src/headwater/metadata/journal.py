"""How changes are written down: JSON, one object per change, in CRC-framed entries. The bytes, not the file.

An entry is one commit, all of it or nothing:

    uint32  length of the payload
    uint32  CRC-32C of the payload
    payload UTF-8 JSON: a list of changes, each {"type": ..., fields}

A torn tail (a crash in the middle of a write) is the only damage that is healed by cutting. What a crash leaves of an
entry ends before the entry does, or has zeroes at its end or in a whole sector, where a page never got to the device;
an entry itself ends with `]` and has no zeroes. Whatever else is not an entry is none of a crash: the disk has changed
what was written and synced, and that is reported.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from struct import Struct
from typing import Any, Final

from headwater.base import checksum
from headwater.base.errors import UserError
from headwater.metadata import image
from headwater.metadata.image import Change, ClusterImage

_FRAME: Final = Struct(">II")
_SECTOR_BYTES: Final = 512
_PAYLOAD_START: Final = b'[{"type":'
_TYPES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        image.TopicCreated,
        image.TopicDeleted,
        image.PartitionsAdded,
        image.TopicConfigured,
        image.BrokerConfigured,
        image.GroupConfigured,
        image.UserConfigured,
        image.ClientConfigured,
        image.AddressConfigured,
        image.AclsSet,
        image.ProducerIdsReserved,
    )
}


def encode_entry(changes: Sequence[Change]) -> bytes:
    payload = json.dumps([_to_json(change) for change in changes], separators=(",", ":")).encode()
    return _FRAME.pack(len(payload), checksum.crc32c(payload)) + payload


def decode_entries(data: bytes, path: str) -> Iterator[tuple[int, list[Change]]]:
    """(position behind the entry, its changes); stops before a torn tail, raises UserError on damage."""
    at = 0
    while at < len(data):
        payload = _payload_at(data, at)
        if payload is None:
            if _has_entry_behind(data, at):
                raise UserError(
                    f"The metadata file {path} is damaged at byte {at}",
                    "what stands there is not an entry, and entries follow: the disk lost or changed what was written",
                    "restore the file from a copy, or move it away: topics are then adopted from their directories, without their configs",
                )
            if not _is_torn(data, at):
                raise UserError(
                    f"The metadata file {path} is damaged at byte {at}",
                    "nothing of the last change is missing, and its checksum is wrong: the disk changed what was written",
                    f"restore the file from a copy, or do without that change: truncate -s {at} {path}",
                )
            return
        at += _FRAME.size + len(payload)
        yield at, [_from_json(item, path) for item in json.loads(payload)]


def _payload_at(data: bytes, at: int) -> bytes | None:
    """The payload of the entry at `at`; None if there is no whole one.
    Nothing at all is not an entry: its CRC is zero.
    """
    begin = at + _FRAME.size
    if begin > len(data):
        return None
    length, crc = _FRAME.unpack_from(data, at)
    payload = data[begin : begin + length]
    return payload if length and len(payload) == length and checksum.crc32c(payload) == crc else None


def _has_entry_behind(data: bytes, at: int) -> bool:
    """A crash tears the last entry only: it was synced before the next one was begun."""
    found = data.find(_PAYLOAD_START, at + _FRAME.size + 1)
    while found >= 0:
        if _payload_at(data, found - _FRAME.size) is not None:
            return True
        found = data.find(_PAYLOAD_START, found + 1)
    return False


def _is_torn(data: bytes, at: int) -> bool:
    """Whether a crash can have left this of an entry that was about to be written at `at`."""
    begin = at + _FRAME.size
    if begin >= len(data) or not data[-1] or _has_empty_sector(data, at):
        return True
    length, crc = _FRAME.unpack_from(data, at)
    rest = data[begin:]
    in_sector = -at % _SECTOR_BYTES  # so much of the entry, if its frame lies in two of them
    is_cut_off = 0 < in_sector < _FRAME.size and not data[at : at + in_sector].strip(b"\0")
    if is_cut_off and (length ^ len(rest)).bit_count() > 1:  # more of the length is gone than a flipped bit
        return True
    return bool(length > len(rest) and checksum.crc32c(rest) != crc)  # if that is right, the length is wrong


def _has_empty_sector(data: bytes, at: int) -> bool:
    """Also the rest of the sector in which the entry begins, if its frame lies there."""
    first = -(-at // _SECTOR_BYTES) * _SECTOR_BYTES
    if first - at >= _FRAME.size and not data[at:first].strip(b"\0"):
        return True
    sectors = range(first, len(data) - _SECTOR_BYTES + 1, _SECTOR_BYTES)
    return any(not data[sector : sector + _SECTOR_BYTES].strip(b"\0") for sector in sectors)


def snapshot(state: ClusterImage) -> list[Change]:
    """Changes that make `state` out of nothing. Leaders and ISRs of a store without a controller are as at creation."""
    changes: list[Change] = [
        image.TopicCreated(t.name, t.topic_id, tuple(tuple(p.replicas) for p in t.partitions), t.config)
        for t in state.topics.values()
    ]
    changes += [image.BrokerConfigured(broker, config) for broker, config in state.broker_configs.items()]
    changes += [image.GroupConfigured(group, config) for group, config in state.group_configs.items() if config]
    changes += [image.UserConfigured(user, config) for user, config in state.user_configs.items() if config]
    changes += [image.ClientConfigured(*key, config) for key, config in state.client_configs.items() if config]
    changes += [image.AddressConfigured(address, config) for address, config in state.address_configs.items() if config]
    changes += [image.AclsSet(*pattern, rules) for pattern, rules in state.acls.items()]
    changes += [image.TopicDeleted(topic_id) for topic_id in state.deleted_topics]
    changes.append(image.ProducerIdsReserved(state.next_producer_id))
    return changes


def _to_json(change: Change) -> dict[str, Any]:
    out: dict[str, Any] = {"type": type(change).__name__}
    for field in fields(change):
        value = getattr(change, field.name)
        out[field.name] = value.hex() if isinstance(value, bytes) else value
    return out


def _from_json(item: dict[str, Any], path: str) -> Change:
    if item["type"] not in _TYPES:
        raise UserError(
            f"The metadata file {path} has a change of an unknown kind, {item['type']}",
            "a later version of Headwater wrote it",
            "start that version, or a newer one",
        )
    values = {name: value for name, value in item.items() if name != "type"}
    if "topic_id" in values:
        values["topic_id"] = bytes.fromhex(values["topic_id"])
    if "assignments" in values:
        values["assignments"] = tuple(tuple(replicas) for replicas in values["assignments"])
    if "rules" in values:
        values["rules"] = tuple(tuple(rule) for rule in values["rules"])
    change: Change = _TYPES[item["type"]](**values)
    return change
