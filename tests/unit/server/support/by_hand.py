"""Clients on real sockets against a node whose loop is turned by hand: requests as bytes, answers taken apart."""

import socket
import struct

from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.node import Node
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headwater.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TOPIC = "orders"


class Client:
    """A blocking socket; while it waits for bytes, the node's loop is turned."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.socket = socket.create_connection(("127.0.0.1", node.endpoints[0].port))
        self.socket.setblocking(False)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                self.node.loop.turn(0.01)
        for _ in range(3):
            self.node.loop.turn(0.001)

    def receive_exactly(self, count: int) -> bytes:
        data = b""
        for _ in range(3000):
            try:
                piece = self.socket.recv(count - len(data))
            except BlockingIOError:
                self.node.loop.turn(0.01)
                continue
            if not piece:
                raise EOFError
            data += piece
            if len(data) == count:
                return data
        raise AssertionError("no answer")

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def has_answer(self) -> bool:
        for _ in range(3):
            self.node.loop.turn(0.001)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def is_closed(self) -> bool:
        try:
            self.receive_exactly(1)
        except (EOFError, ConnectionResetError):
            return True
        return False


def frame(key: int, version: int, correlation_id: int, body: list[bytes]) -> bytes:
    data = encode_request_header(key, version, correlation_id, "test") + b"".join(body)
    return struct.pack(">i", len(data)) + data


def produce(correlation_id: int, value: bytes = b"v", *, partition: int = 0, acks: int = 1, version: int = 9) -> bytes:
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, None, value, [])]))
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)])
        ],
    )
    return frame(0, version, correlation_id, request.encode(version))


def fetch(
    correlation_id: int, offset: int = 0, *, wait_ms: int = 60_000, min_bytes: int = 1, max_bytes: int = 1 << 20
) -> bytes:
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=TOPIC,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)],
            )
        ],
    )
    return frame(1, 11, correlation_id, request.encode(11))


def correlation(answer: bytes) -> int:
    (value,) = struct.unpack_from(">i", answer)
    return int(value)


def produced(answer: bytes, version: int = 9) -> tuple[int, int]:
    _, at = decode_response_header(answer, 0, version)
    part = ProduceResponse.decode(answer, at, version).responses[0].partition_responses[0]
    return part.error_code, part.base_offset


def fetched(answer: bytes) -> FetchResponse:
    return FetchResponse.decode(answer, 4, 11)
