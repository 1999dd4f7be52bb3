"""Transactional producers, by the name of their client, and readers that tell what they left."""

from compat.support.transactional.adapters import (
    AiokafkaTransactional,
    ConfluentTransactional,
    JavaTransactional,
    KafkaPythonTransactional,
)
from compat.support.transactional.base import Place, Refused, Transactional, committed_offset, read

PRODUCERS: dict[str, type[Transactional]] = {
    kind.name: kind
    for kind in (
        ConfluentTransactional,
        KafkaPythonTransactional,
        AiokafkaTransactional,
        JavaTransactional,
        HeadwaterTransactional,
    )
}

__all__ = ["PRODUCERS", "Place", "Refused", "Transactional", "committed_offset", "read"]
