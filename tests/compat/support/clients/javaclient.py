"""The Java client, in the JVM of the session."""

import base64
from typing import Any

from compat.support.clients.base import (
    TIMEOUT_S,
    Client,
    ClientError,
    Message,
    Positions,
    Reading,
    Received,
    Sending,
)
from compat.support.java import JavaError


class JavaClient(Client):
    name = "java"

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        config = {
            "bootstrap.servers": bootstrap,
            "compression.type": options.codec,
            "acks": options.acks,
            "enable.idempotence": options.idempotent,
            "max.request.size": options.max_request_bytes,
            "buffer.memory": 64 << 20,
            "linger.ms": 20,
            "max.block.ms": TIMEOUT_S * 1000,
            "request.timeout.ms": TIMEOUT_S * 500,
            "delivery.timeout.ms": TIMEOUT_S * 1000,
        }
        answer = self._call(
            "produce",
            config=config,
            topic=topic,
            partition=options.partition,
            records=[_record(m) for m in messages],
            handle=options.handle,
        )
        return [sent["offset"] for sent in answer["sent"]]

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        where: list[Any] = [options.start.kind, options.start.value]
        if options.start.epoch is not None:
            where.append(options.start.epoch)
        answer = self._call(
            "consume",
            config=_consumer_config(bootstrap, options.committed),
            topic=topic,
            partition=options.partition,
            start=where,
            count=count,
            timeout_ms=TIMEOUT_S * 1000,
        )
        return [_received(record) for record in answer["records"]]

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        answer = self._call("positions", config=_consumer_config(bootstrap, False), topic=topic, partition=partition)
        return Positions(answer["beginning"], answer["end"])

    def _call(self, op: str, **arguments: Any) -> Any:
        try:
            return self.java.call(op, **arguments)
        except JavaError as error:
            raise ClientError(error.code, str(error)) from error


def _consumer_config(bootstrap: str, committed: bool) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "none",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "default.api.timeout.ms": TIMEOUT_S * 1000,
    }


def _record(message: Message) -> dict[str, Any]:
    return {
        "key": _text(message.key),
        "value": _text(message.value),
        "headers": [[name, _text(value)] for name, value in message.headers],
        "timestamp": message.timestamp,
    }


def _received(record: dict[str, Any]) -> Received:
    return Received(
        offset=record["offset"],
        value=_bytes(record["value"]),
        key=_bytes(record["key"]),
        headers=tuple((name, _bytes(value)) for name, value in record["headers"]),
        timestamp=record["timestamp"],
        create=record["timestamp_type"] == "CreateTime",
        leader_epoch=record["leader_epoch"],
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
