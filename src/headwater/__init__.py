"""Headwater: a streaming platform in Python that any Kafka client already knows."""

from headwater import _version

__version__ = _version.VERSION
