"""kcat, with the librdkafka that the distribution links it to (Debian 12: 2.0.2): the old one among the clients."""

import itertools
import json
import subprocess

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

KEY_END = "\x1f"
MESSAGE_END = "\x1e"


class Kcat(Client):
    """Values are text here: kcat's JSON output has no place for other bytes."""

    name = "kcat"
    sets_timestamps = False
    null_header_values = False

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        assert all(message.timestamp is None for message in messages)
        flags = ["-z", options.codec, "-K", KEY_END, "-D", MESSAGE_END]
        flags += ["-X", f"acks={options.acks}", "-X", f"enable.idempotence={str(options.idempotent).lower()}"]
        flags += [
            "-X",
            f"message.max.bytes={options.max_request_bytes}",
            "-X",
            f"message.timeout.ms={TIMEOUT_S * 1000}",
        ]
        if options.partition is not None:
            flags += ["-p", str(options.partition)]
        # Headers and "empty means null" are set per run: one run for each stretch of messages that agree on them.
        for (headers, null), stretch in itertools.groupby(messages, lambda m: (m.headers, m.value is None)):
            own = [f for name, value in headers for f in ("-H", f"{name}={(value or b'').decode()}")]
            text = MESSAGE_END.join(_line(message) for message in stretch) + MESSAGE_END
            _kcat("-P", "-b", bootstrap, "-t", topic, *flags, *own, *(["-Z"] if null else []), stdin=text)
        return []

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        kind, value = options.start.kind, str(options.start.value)
        offset = {"tail": f"-{value}", "offset": value, "timestamp": f"s@{value}"}.get(kind, kind)
        isolation = "read_committed" if options.committed else "read_uncommitted"
        flags = ["-p", str(options.partition), "-o", offset, "-c", str(count), "-J", "-u"]
        flags += ["-X", f"isolation.level={isolation}", "-X", "auto.offset.reset=error"]
        output = _kcat("-C", "-b", bootstrap, "-t", topic, *flags)
        return [_received(json.loads(line)) for line in output.splitlines()]

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        found = []
        for timestamp in (-2, -1):
            output = _kcat("-Q", "-b", bootstrap, "-t", f"{topic}:{partition}:{timestamp}")
            found.append(int(output.rsplit(None, 1)[1]))  # "topic [0] offset 17"
        return Positions(*found)


def _line(message: Message) -> str:
    value = "" if message.value is None else message.value.decode()
    return value if message.key is None else message.key.decode() + KEY_END + value


def _kcat(*arguments: str, stdin: str = "") -> str:
    result = subprocess.run(
        ["kcat", *arguments], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S + 10, check=False
    )
    if result.returncode != 0 or "ERROR" in result.stderr:
        raise ClientError(None, result.stderr)
    return result.stdout


def _received(record: dict[str, object]) -> Received:
    flat = record.get("headers") or []
    assert isinstance(flat, list)
    headers = tuple((name, value.encode()) for name, value in zip(flat[::2], flat[1::2], strict=True))
    return Received(
        offset=int(str(record["offset"])),
        value=_bytes(record["payload"]),
        key=_bytes(record["key"]),
        headers=headers,
        timestamp=int(str(record["ts"])),
        create=record["tstype"] == "create",
    )


def _bytes(text: object) -> bytes | None:
    return None if text is None else str(text).encode()
