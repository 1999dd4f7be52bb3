"""A bare connection: requests that no client would send. Messages by kio, batches by kafka-python."""

import contextlib
import importlib
import io
import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.serial import entity_reader, entity_writer

TIMEOUT_S = 60
WAIT_S = 180
CRC_AT = 17  # in a record batch


class Raw:
    """One socket. `send` and `receive` are apart, so that requests can be pipelined."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, request: Any) -> int:
        """The correlation id."""
        self._correlation_id += 1
        self.send_bytes(frame(request, self._correlation_id))
        return self._correlation_id

    def receive_frame(self) -> bytes:
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def receive(self, request: Any) -> tuple[int, Any]:
        """The next answer on the wire, read as the answer to `request`: correlation id and message."""
        answer = self.receive_frame()
        module = type(request).__module__.replace(".request", ".response")
        name = type(request).__name__.replace("Request", "Response")
        response = getattr(importlib.import_module(module), name)
        at = 5 if response.__header_schema__.__version__ >= 1 else 4  # header v1 ends with (no) tagged fields
        entity, size = entity_reader(response)(answer, at)
        assert at + size == len(answer)
        return struct.unpack_from(">i", answer)[0], entity

    def call(self, request: Any) -> Any:
        correlation_id = self.send(request)
        answered, response = self.receive(request)
        assert answered == correlation_id
        return response

    def closed_by_peer(self, within_s: float = TIMEOUT_S) -> bool:
        """Whether the broker ends the connection, whatever it says before."""
        self.socket.settimeout(within_s)
        with contextlib.suppress(ConnectionError):
            while True:
                try:
                    if not self.socket.recv(65536):
                        return True
                except TimeoutError:
                    return False
        return True

    def silent(self, for_s: float) -> bool:
        """Whether nothing at all arrives."""
        self.socket.settimeout(for_s)
        try:
            data = self.socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)
        raise AssertionError(f"expected silence, got {data!r}")

    def reset(self) -> None:
        """Ends the connection by RST, as a crashed peer or a middlebox does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += piece
        return data


def frame(request: Any, correlation_id: int = 1) -> bytes:
    buffer = io.BytesIO()
    header = type(request).__header_schema__
    fields: dict[str, Any] = {"client_id": "raw"} if header.__version__ >= 1 else {}
    entity_writer(header)(
        buffer,
        header(
            request_api_key=type(request).__api_key__,
            request_api_version=type(request).__version__,
            correlation_id=correlation_id,
            **fields,
        ),
    )
    entity_writer(type(request))(buffer, request)
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def message(api: str, version: int, name: str) -> Any:
    """A class of kio's schema: message("fetch", 12, "FetchRequest")."""
    return getattr(importlib.import_module(f"kio.schema.{api}.v{version}.request"), name)


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp: int | None = None,
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    now = int(time.time() * 1000) if timestamp is None else timestamp
    for number, value in enumerate(values):
        builder.append(number, now, key, value, [])
    return bytes(builder.build())


def with_wrong_crc(data: bytes) -> bytes:
    return data[:CRC_AT] + bytes([data[CRC_AT] ^ 0xFF]) + data[CRC_AT + 1 :]


def produce(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9) -> Any:
    partition_data = message("produce", version, "PartitionProduceData")(index=partition, records=records)
    topic_data = message("produce", version, "TopicProduceData")(name=topic, partition_data=(partition_data,))
    return message("produce", version, "ProduceRequest")(
        acks=acks, timeout=timedelta(seconds=10), topic_data=(topic_data,)
    )


def fetch(
    topic: str | None,
    offset: int = 0,
    *,
    wait_ms: int = 500,
    min_bytes: int = 1,
    session_id: int = 0,
    session_epoch: int = -1,
    leader_epoch: int = -1,
    partition: int = 0,
    version: int = 12,
) -> Any:
    """A fetch of one partition, or (topic None) of whatever the session holds."""
    wanted = message("fetch", version, "FetchPartition")(
        partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    topics = (message("fetch", version, "FetchTopic")(topic=topic, partitions=(wanted,)),) if topic else ()
    return message("fetch", version, "FetchRequest")(
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=min_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=(),
    )


def metadata(*topics: str, create: bool = False) -> Any:
    names = tuple(message("metadata", 8, "MetadataRequestTopic")(name=name) for name in topics)
    return message("metadata", 8, "MetadataRequest")(
        topics=names,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def produced(response: Any) -> tuple[int, int]:
    """(error code, base offset) of the only partition."""
    answer = response.responses[0].partition_responses[0]
    return int(answer.error_code), answer.base_offset


def fetched(response: Any) -> tuple[int, bytes]:
    """(error code, records) of the only partition."""
    answer = response.responses[0].partitions[0]
    return int(answer.error_code), bytes(answer.records or b"")


def init_producer(connection: Raw) -> tuple[int, int]:
    """A producer id and its epoch."""
    request = message("init_producer_id", 4, "InitProducerIdRequest")(
        transactional_id=None, transaction_timeout=timedelta(milliseconds=2**31 - 1)
    )
    response = connection.call(request)
    deadline = time.monotonic() + WAIT_S
    while response.error_code in (14, 15) and time.monotonic() < deadline:  # Apache Kafka in its first moments
        time.sleep(0.05)
        response = connection.call(request)
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


def wait_until(condition: Callable[[], object], what: str) -> None:
    """For what Apache Kafka does a little after it answered, such as to lead a new topic."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"still not {what} after {WAIT_S} s"
        time.sleep(0.02)


def make_topic(bootstrap: str, topic: str) -> None:
    """A topic with one partition, ready to be written to, by automatic creation."""
    with Raw(bootstrap) as connection:
        wait_until(lambda: connection.call(metadata(topic, create=True)).topics[0].error_code == 0, "created")
        wait_until_led(connection, topic)


def wait_until_led(connection: Raw, topic: str) -> None:
    """Until the first partition of an empty topic can be used: Apache Kafka tells of a leader before it leads."""
    wait_until(lambda: fetched(connection.call(fetch(topic, 0, wait_ms=1)))[0] == 0, "led")


def wait_for_topic(bootstrap: str, topic: str) -> None:
    """Until the broker leads all partitions of a topic that it had before it was started."""

    def led() -> bool:
        answer = connection.call(metadata(topic)).topics[0]
        return not answer.error_code and not any(partition.error_code for partition in answer.partitions)

    with Raw(bootstrap) as connection:
        wait_until(led, "led")
