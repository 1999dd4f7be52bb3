"""Records of `__consumer_offsets` and `__transaction_state` as JSON, in the shape of Kafka's own converters:

    key      {"type":"1","data":{"group":"g","topic":"t","partition":0}}
    payload  {"version":"4","data":{"offset":5,...}}

Fields have Kafka's names, tagged ones are there if they are set. What is of an unknown type or version is left out, as there.
"""

import json
from base64 import b64encode
from typing import Any, Final

from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records import consumer_records, group_records, transaction_records
from headwater.wire.errors import DecodeError
from headwater.wire.schema import UUID, Array, Message, Struct

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


def _key(key: bytes, data: dict[str, Any]) -> str:
    return _json({"type": str(int.from_bytes(key[:2], "big")), "data": data})


def _value(value: bytes | None, decoded: Message | None) -> str:
    if value is None or decoded is None:
        return "null"
    version = int.from_bytes(value[:2], "big")
    return _json({"version": str(version), "data": _data(decoded, version)})


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _data(struct: Struct, version: int) -> dict[str, Any]:
    data = {}
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if not field.in_version(version) or (field.tag is not None and value == field.default):
            continue
        data[_camel(field.name)] = _plain(value, field.type, version)
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
