"""Headwater: a streaming platform in Python that any Kafka client already knows."""

from typing import TYPE_CHECKING, Any

from headwater import _version

if TYPE_CHECKING:
    from headwater.client.topic_frame import read as read

__version__ = _version.VERSION


def __getattr__(name: str) -> Any:
    """`headwater.read` loads when it is first used."""
    if name == "read":
        from headwater.client.topic_frame import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
