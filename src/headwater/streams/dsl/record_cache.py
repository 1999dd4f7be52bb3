"""How large the record cache is, by Kafka Streams' settings: `statestore.cache.max.bytes`, and its former name."""

from collections.abc import Mapping
from typing import Any, Final

from headwater.base.errors import UserError

CACHE_SETTINGS: Final = ("statestore.cache.max.bytes", "cache.max.bytes.buffering")


def cache_setting(config: Mapping[str, Any]) -> int:
    """Of an application: how many bytes; 0 where it says nothing."""
    for name in CACHE_SETTINGS:
        if name in config:
            return checked_bytes(name, config[name])
    return 0


def checked_bytes(name: str, given: Any) -> int:
    try:
        size = int(given)
    except (TypeError, ValueError):
        size = -1
    if size < 0:
        raise UserError(f"{name} cannot be {given!r}", "it is a number of bytes; 0: there is no record cache")
    return size
