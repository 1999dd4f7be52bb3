"""Headwater: a streaming platform in Python that any Kafka client already knows."""

from headwater._version import VERSION as __version__

__all__ = ["__version__"]
