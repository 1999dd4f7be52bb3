"""Which version of an API both sides speak: the highest that is in both ranges.

The broker's ranges come from its ApiVersions response and hold for one connection.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError


class VersionRange(NamedTuple):
    """Both ends belong to it."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


def choose_version(
    key: int, name: str, ours: VersionRange, theirs: Mapping[int, VersionRange], *, at_most: int | None = None
) -> int:
    """The highest common version, or UNSUPPORTED_VERSION in words that say which side is too old.

    `at_most` is for callers who need an older shape of a message.
    """
    offered = theirs.get(key)
    if offered is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not offer {name} (API {key})")
    highest = ours.highest if at_most is None else min(ours.highest, at_most)
    version = min(highest, offered.highest)
    if version < max(ours.lowest, offered.lowest):
        side = "the broker is too old" if offered.highest < ours.lowest else "the broker is too new"
        mine = VersionRange(ours.lowest, highest)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"{side} for {name}: it offers versions {offered}, this client speaks {mine}"
        )
    return version
