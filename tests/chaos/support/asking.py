"""Requests to one broker and no other. A client would ask whom it likes, also one that stands still."""

import socket
from collections.abc import Callable
from typing import Any

from chaos.support.network import HOST
from chaos.support.processes import WAIT_S
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.registry import response_class

State = tuple[int, list[int], list[int]]
"""Of a partition: its leader, its replicas, and those in sync."""

Door = Callable[[], socket.socket]
"""Connects to a broker, and logs in there if it must."""

CREATE_TIMEOUT_MS = 30_000  # a controller that has just lost its session never answers: another is asked


def ask(port: "int | Door", request: Any, version: int) -> Any:
    """On a connection of its own. Raises ConnectionError if the broker is gone, or goes before it has answered."""
    with socket.create_connection((HOST, port), WAIT_S) if isinstance(port, int) else port() as connection:
        return ask_on(connection, request, version)


def ask_on(connection: socket.socket, request: Any, version: int) -> Any:
    body = b"".join((encode_request_header(request.KEY, version, 1, "by hand"), *request.encode(version)))
    connection.sendall(len(body).to_bytes(4) + body)
    frame = _exactly(connection, int.from_bytes(_exactly(connection, 4)))
    _, at = decode_response_header(frame, request.KEY, version)
    return response_class(request.KEY).decode(frame, at, version)


def metadata(port: int | Door, *topics: str) -> MetadataResponse:
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    found = ask(port, MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
    assert isinstance(found, MetadataResponse)
    return found


def describe(port: int | Door, topic: str) -> dict[int, State]:
    """Its partitions; none if the broker has not heard of it."""
    (found,) = metadata(port, topic).topics
    return {one.partition_index: (one.leader_id, one.replica_nodes, one.isr_nodes) for one in found.partitions}


def create_topic(port: int | Door, name: str, partitions: int, replicas: int, config: dict[str, str]) -> int:
    """The error code."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)
    answer = ask(port, CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS), 7)
    return int(answer.topics[0].error_code)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {count} bytes")
        data += piece
    return data
