"""Records of `__consumer_offsets` and `__transaction_state` as JSON, in the shape of Kafka's own converters:

    key      {"type":"1","data":{"group":"g","topic":"t","partition":0}}
    payload  {"version":"4","data":{"offset":5,...}}

Fields have Kafka's names, tagged ones are there if they are set or may be null. What is of an unknown type or version
is left out, as there.
"""

import contextlib
import json
from base64 import b64encode
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records import consumer_records, group_records, transaction_records
from headwater.coordinator.records.group_records import GroupMetadataRecord, OffsetCommitRecord
from headwater.wire.errors import DecodeError
from headwater.wire.schema import BYTES, INT32, STRING, UUID, Array, Message, Struct, field

_MEMBER: Final = "memberId"
_REGEX: Final = "regularExpression"


def group_texts(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    if key is None:
        return None, None
    record = CoordinatorRecord(bytes(key), None if value is None else bytes(value))
    try:
        classic = group_records.read_record(record)
        if classic is not None:
            return _key(key, _data(classic.key, 0)), _value(value, classic.value)
        consumer = consumer_records.decode(record)
    except DecodeError as error:
        return f"unreadable: {error.message}", None
    if consumer is None:
        return None, None
    data: dict[str, Any] = {"groupId": consumer.group_id}
    if consumer.name:
        is_regex = consumer.type == consumer_records.RecordType.REGULAR_EXPRESSION
        data[_REGEX if is_regex else _MEMBER] = consumer.name
    return _key(key, data), _value(value, consumer.value)


def transaction_texts(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    if key is None:
        return None, None
    try:
        record = transaction_records.read_transaction_record(
            CoordinatorRecord(bytes(key), None if value is None else bytes(value))
        )
    except DecodeError as error:
        return f"unreadable: {error.message}", None
    if record is None:
        return None, None
    return _key(key, {"transactionalId": record.transactional_id}), _value(value, record.value)


def group_document(
    key: bytes, value: bytes | None, kind: type[OffsetCommitRecord | GroupMetadataRecord]
) -> dict[str, Any] | None:
    """A record of that kind as one document with numbers, and members' bytes as they are; None for others."""
    try:
        record = group_records.read_record(CoordinatorRecord(key, value))
    except DecodeError as error:
        return _unreadable(error)
    return _document(key, value, _data(record.key, 0), record.value) if isinstance(record, kind) else None


def transaction_document(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    try:
        record = transaction_records.read_transaction_record(CoordinatorRecord(key, value))
    except (DecodeError, KafkaError) as error:
        return _unreadable(error)
    if record is None:
        return None
    return _document(key, value, {"transactionalId": record.transactional_id}, record.value)


def _unreadable(error: DecodeError | KafkaError) -> dict[str, Any]:
    return {"key": f"unreadable: {error.message}", "value": None}


def _document(key: bytes, value: bytes | None, names: dict[str, Any], decoded: Message | None) -> dict[str, Any]:
    shown = None
    if value is not None and decoded is not None:
        version = int.from_bytes(value[:2], "big")
        shown = {"version": version, "data": _data(decoded, version)}
    return {"key": {"type": int.from_bytes(key[:2], "big"), "data": names}, "value": shown}


class OwnedPartition(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class Subscription(Message, key=0, versions=(0, 3)):
    """What a member of a classic group of consumers offers when it joins."""

    topics: list[str] = field(Array(STRING))
    user_data: bytes | None = field(BYTES, nullable_since=0)
    owned_partitions: list[OwnedPartition] = field(Array(OwnedPartition), since=1)
    generation_id: int = field(INT32, since=2, default=-1)
    rack_id: str | None = field(STRING, since=3, nullable_since=3)


class MemberAssignment(Message, key=0, versions=(0, 3)):
    assigned_partitions: list[OwnedPartition] = field(Array(OwnedPartition))
    user_data: bytes | None = field(BYTES, nullable_since=0)


def _open_members(text: dict[str, Any], group: group_records.GroupMetadataValue) -> None:
    """Members of consumers speak a protocol that is known: it is shown in place of its bytes."""
    for shown, member in zip(text["members"], group.members, strict=True):
        for name, kind, data in (
            ("subscription", Subscription, bytes(member.subscription)),
            ("assignment", MemberAssignment, bytes(member.assignment)),
        ):
            if len(data) < 2:
                continue
            version = min(int.from_bytes(data[:2], "big"), kind.VERSIONS[1])
            with contextlib.suppress(DecodeError):
                shown[name] = _data(kind.decode(data, 2, version), version)


def _key(key: bytes, data: dict[str, Any]) -> str:
    return as_json({"type": str(int.from_bytes(key[:2], "big")), "data": data})


def _value(value: bytes | None, decoded: Message | None) -> str:
    if value is None or decoded is None:
        return "<DELETE>"
    version = int.from_bytes(value[:2], "big")
    data = _data(decoded, version)
    if isinstance(decoded, group_records.GroupMetadataValue) and decoded.protocol_type == "consumer":
        _open_members(data, decoded)
    return as_json({"version": str(version), "data": data})


def as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _data(struct: Struct, version: int) -> dict[str, Any]:
    data = {}
    for declared in struct.FIELDS:
        value = getattr(struct, declared.name)
        unset = declared.tag is not None and declared.nullable_since is None and value == declared.default
        if unset or not declared.in_version(version):
            continue
        data[_camel(declared.name)] = _plain(value, declared.type, version)
    return data


def _plain(value: Any, kind: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return _data(value, version)
    if isinstance(value, list):
        of = kind.element if isinstance(kind, Array) else None
        return [_plain(each, of, version) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        if kind is UUID:
            from headwater.client.types import topic_id_text

            return topic_id_text(raw)
        return b64encode(raw).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
