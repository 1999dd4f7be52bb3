"""The clients of the matrix, by name."""

from compat.support.clients.aio import Aiokafka
from compat.support.clients.base import (
    BEGINNING,
    CODECS,
    Client,
    ClientError,
    Message,
    Positions,
    Received,
    Start,
    content,
)
from compat.support.clients.confluent import Confluent
from compat.support.clients.javaclient import JavaClient
from compat.support.clients.kafka_python import KafkaPython
from compat.support.clients.kcat import Kcat
from compat.support.clients.ours import Ours

CLIENTS: dict[str, type[Client]] = {
    kind.name: kind for kind in (Confluent, KafkaPython, Aiokafka, Kcat, JavaClient, Ours)
}

__all__ = [
    "BEGINNING",
    "CLIENTS",
    "CODECS",
    "Client",
    "ClientError",
    "Message",
    "Positions",
    "Received",
    "Start",
    "content",
]
