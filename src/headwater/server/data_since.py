"""Since when a broker of a cluster has its data: the epoch of its first life with the directories that it has now.

In-sync replicas stand in ZooKeeper with the epoch of a broker's life. If that is an earlier one, the data was another: a disk was replaced,
or is not mounted. `data-since` in each log directory holds the epoch, and null between the claim of empty directories and the first
registration. Directories that have no such file are older than it, or Apache Kafka's: nothing is known, and nothing is missing.
"""

import json
import logging
from collections.abc import Sequence
from typing import Final

from headwater.base.ports import Disk
from headwater.log.checkpoint import read_if_present
from headwater.log.names import META_PROPERTIES
from headwater.metadata.image import NEW_DATA

FILE: Final = "data-since"
_UNKNOWN: Final = -1

logger = logging.getLogger("headwater.server")


def begin(disk: Disk, paths: Sequence[str]) -> int:
    """Before the directories are claimed: the epoch, NEW_DATA if they are empty, or -1. Raises OSError."""
    if not any(disk.exists(f"{path}/{META_PROPERTIES}") for path in paths):
        _write(disk, paths, None)
        return NEW_DATA
    found = [_read(disk, path) for path in paths]
    known = max(found)
    return NEW_DATA if known == _UNKNOWN and NEW_DATA in found else known


def settle(disk: Disk, paths: Sequence[str], epoch: int) -> None:
    """After the first registration. If it fails, the data counts as new once more."""
    try:
        _write(disk, paths, epoch)
    except OSError as problem:
        logger.error("event=data-since-not-written reason=%r", str(problem))


def _write(disk: Disk, paths: Sequence[str], epoch: int | None) -> None:
    """Into all that can be written to; raises if that is none."""
    problem: OSError | None = None
    written = 0
    for path in paths:
        try:
            disk.write_file(f"{path}/{FILE}", json.dumps({"version": 0, "brokerEpoch": epoch}).encode())
            written += 1
        except OSError as failed:
            problem = failed
    if problem is not None and not written:
        raise problem


def _read(disk: Disk, path: str) -> int:
    try:
        text = read_if_present(disk, f"{path}/{FILE}")
        if text is None:
            return _UNKNOWN
        epoch = json.loads(text)["brokerEpoch"]
        return NEW_DATA if epoch is None else int(epoch)
    except (OSError, ValueError, KeyError, TypeError):
        logger.error("event=data-since-unreadable path=%s", f"{path}/{FILE}")
        return _UNKNOWN
