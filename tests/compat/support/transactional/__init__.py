"""Transactional producers, by the name of their client, and readers that tell what they left."""

from compat.support.transactional.adapters import (
    AiokafkaTransactional,
    ConfluentTransactional,
    JavaTransactional,
    KafkaPythonTransactional,
)
from compat.support.transactional.base import (
    TRANSACTION_MS,
    Place,
    Refused,
    Transactional,
    committed_offset,
    read,
    until_decided,
)
from compat.support.transactional.ours import OursTransactional

PRODUCERS: dict[str, type[Transactional]] = {
    kind.name: kind
    for kind in (
        ConfluentTransactional,
        KafkaPythonTransactional,
        AiokafkaTransactional,
        JavaTransactional,
        OursTransactional,
    )
}

__all__ = [
    "PRODUCERS",
    "TRANSACTION_MS",
    "Place",
    "Refused",
    "Transactional",
    "committed_offset",
    "read",
    "until_decided",
]
