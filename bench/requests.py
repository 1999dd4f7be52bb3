"""Requests as bytes: prebuilt frames for `replay.c`, and the few calls that set up and check a measurement.

The versions (Produce 7, Fetch 11, CreateTopics 2, DeleteTopics 1, ListOffsets 1) are ones that every broker in question
serves; none is flexible, so the bytes stay plain (DescribeQuorum 0 is, but has few fields). Nothing here comes from the
package under test.
"""

import os
import socket
import struct
import time

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_QUORUM = 0, 1, 2, 19, 20, 55
CLIENT_ID = "bench"
READY_TIMEOUT_S = 20
TIMESTAMP_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def batch(records: int, value_bytes: int, first_key: int | None = None, value: bytes | None = None) -> bytes:
    """A record batch with the same value, a random one if none is given, in each record; with keys (8 bytes each) if
    there is a first one.
    """
    value = os.urandom(value_bytes) if value is None else value
    rows = bytearray()
    for index in range(records):
        key = varint(-1) if first_key is None else varint(8) + struct.pack(">q", first_key + index)
        body = b"\0" + varint(0) + varint(index) + key + varint(value_bytes) + value + varint(0)
        rows += varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, records - 1, TIMESTAMP_MS, TIMESTAMP_MS, -1, -1, -1, records) + bytes(rows)
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def frame(api: int, version: int, body: bytes) -> bytes:
    whole = struct.pack(">hhi", api, version, 1) + string(CLIENT_ID) + body
    return struct.pack(">i", len(whole)) + whole


def produce(topic: str, partition: int, data: bytes, acks: int = 1) -> bytes:
    body = (
        struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic) + struct.pack(">iii", 1, partition, len(data)) + data
    )
    return frame(PRODUCE, 7, body)


def fetch(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    body = struct.pack(">iiiibiii", -1, 500, 1, max_bytes, 0, 0, -1, 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes) + struct.pack(">i", 0) + string("")
    return frame(FETCH, 11, body)


def create_topic(topic: str, partitions: int, configs: dict[str, str]) -> bytes:
    body = (
        struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, 1, 0) + struct.pack(">i", len(configs))
    )
    body += b"".join(string(name) + string(value) for name, value in configs.items())
    return frame(CREATE_TOPICS, 2, body + struct.pack(">ib", 30_000, 0))


def delete_topic(topic: str) -> bytes:
    return frame(DELETE_TOPICS, 1, struct.pack(">i", 1) + string(topic) + struct.pack(">i", 30_000))


def list_offsets(topic: str, partitions: int, timestamp: int) -> bytes:
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iq", partition, timestamp) for partition in range(partitions))
    return frame(LIST_OFFSETS, 1, body)


def describe_quorum() -> bytes:
    """Of the metadata log, by which Apache Kafka's controllers elect one of them."""
    name = b"__cluster_metadata"
    topic = bytes([2, len(name) + 1]) + name + bytes([2]) + struct.pack(">i", 0) + bytes(3)
    whole = struct.pack(">hhi", DESCRIBE_QUORUM, 0, 1) + string(CLIENT_ID) + b"\0" + topic
    return struct.pack(">i", len(whole)) + whole


class Broken(Exception):
    """The broker said no, or its answer does not fit what was sent: the figure would be worth nothing."""


class Calls:
    """One connection for set-up and checks; blocking, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def __enter__(self) -> "Calls":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, request: bytes) -> bytes:
        """The response's body, after its length and correlation id."""
        self._socket.sendall(request)
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)[4:]

    def _read(self, length: int) -> bytes:
        out = bytearray()
        while len(out) < length:
            data = self._socket.recv(length - len(out))
            if not data:
                raise Broken("the broker closed the connection")
            out += data
        return bytes(out)

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        """Comes back when every partition can be used: Apache Kafka answers before that."""
        body = self.call(create_topic(topic, partitions, configs or {}))
        at = 4 + 4 + 2 + len(topic)  # throttle time, count, name
        (error,) = struct.unpack_from(">h", body, at)
        if error:
            raise Broken(f"CreateTopics of {topic}: error {error}")
        self.wait_for_topic(topic, partitions)

    def wait_for_topic(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                self.end_offsets(topic, partitions)
                return
            except Broken:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def delete_topic(self, topic: str) -> None:
        body = self.call(delete_topic(topic))
        (error,) = struct.unpack_from(">h", body, len(body) - 2)
        if error:
            raise Broken(f"DeleteTopics of {topic}: error {error}")

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """The log end offset of each partition, by ListOffsets."""
        body = self.call(list_offsets(topic, partitions, -1))
        at = 4 + 2 + len(topic) + 4
        offsets = [-1] * partitions
        for _ in range(partitions):
            partition, error, _timestamp, offset = struct.unpack_from(">ihqq", body, at)
            at += 22
            if error:
                raise Broken(f"ListOffsets of {topic}-{partition}: error {error}")
            offsets[partition] = offset
        return offsets

    def quorum_leader(self) -> int:
        """The number of the controller that leads Apache Kafka's others."""
        body = self.call(describe_quorum())
        (error,) = struct.unpack_from(">h", body, 1)  # after the header's tagged fields
        if error == 0:
            at = 4 + body[4] + 1 + 4  # after the name, the count of partitions, the partition's number
            error, leader = struct.unpack_from(">hi", body, at)
        if error:
            raise Broken(f"DescribeQuorum: error {error}")
        return int(leader)
