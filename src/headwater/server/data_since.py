"""Since when a broker of a cluster has its data: the epoch of its first life with the directories that it has now.

In-sync replicas stand in ZooKeeper with the epoch of a broker's life. If that is an earlier one, the data was another:
a disk was replaced, or is not mounted. `data-since` in each log directory holds what is known of that: views, each an
epoch and the ids of the directories that the data has lain in since then. A view is whole while all of its directories
are there. The data goes back as far as the views are whole, from the newest on; if that is not, it is new. A directory
that is added belongs to the views that are whole from then on; one that cannot be read is not taken for one that was
replaced.

Without views the file holds null between the claim of empty directories and the first registration. Directories that
have no such file are older than it, or Apache Kafka's: nothing is known, and nothing is missing.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from headwater.base.ports import Disk
from headwater.log.checkpoint import parse_properties, read_if_present
from headwater.log.names import META_PROPERTIES
from headwater.metadata.image import NEW_DATA

FILE: Final = "data-since"
VIEWS_MAX: Final = 16
_UNKNOWN: Final = -1

logger = logging.getLogger("headwater.server")


class View(NamedTuple):
    since: int
    directories: frozenset[str]


class _Present(NamedTuple):
    """What can be told of the directories now."""

    ids: frozenset[str]
    unreadable: int

    def has_all_of(self, view: View) -> bool:
        return len(view.directories - self.ids) <= self.unreadable


def begin(disk: Disk, paths: Sequence[str]) -> int:
    """Before the directories are claimed: the epoch, NEW_DATA if they are empty or not what they were, or -1. Raises
    OSError.
    """
    if not any(disk.exists(f"{path}/{META_PROPERTIES}") for path in paths):
        _write(disk, paths, [])
        return NEW_DATA
    views, is_begun = _read_all(disk, paths)
    if not views:
        return NEW_DATA if is_begun else _UNKNOWN
    whole = _whole(views, _look(disk, paths))
    if not whole:
        logger.warning("event=data-new note='a log directory was replaced, or is not mounted'")
        return NEW_DATA
    return whole[0].since


def settle(disk: Disk, paths: Sequence[str], data_since: int, epoch: int) -> None:
    """After the registration under `epoch`. If it fails, what was new counts as new once more."""
    if data_since == _UNKNOWN:
        return
    views, _ = _read_all(disk, paths)
    present = _look(disk, paths)
    whole = _whole(views, present) if data_since != NEW_DATA else []
    after = [View(each.since, each.directories | present.ids) if each in whole else each for each in views]
    if data_since == NEW_DATA:
        after = [*views, View(epoch, present.ids)]
    if after == views and all(_holds(disk, path, views) for path in paths):
        return
    try:
        _write(disk, paths, after[-VIEWS_MAX:])
    except OSError as problem:
        logger.error("event=data-since-not-written reason=%r", str(problem))


def _whole(views: Sequence[View], present: _Present) -> list[View]:
    """Those up to the newest, all of whose directories are there; the oldest of them first."""
    found: list[View] = []
    for view in reversed(views):
        if not present.has_all_of(view):
            break
        found.insert(0, view)
    return found


def _look(disk: Disk, paths: Sequence[str]) -> _Present:
    ids: set[str] = set()
    unreadable = 0
    for path in paths:
        try:
            text = read_if_present(disk, f"{path}/{META_PROPERTIES}")
        except OSError:
            unreadable += 1
            continue
        if text is not None:
            directory_id = parse_properties(text).get("directory.id")
            unreadable += directory_id is None
            ids |= {directory_id} if directory_id is not None else set()
    return _Present(frozenset(ids), unreadable)


def _write(disk: Disk, paths: Sequence[str], views: Sequence[View]) -> None:
    """Into all that can be written to; raises if that is none."""
    problem: OSError | None = None
    written = 0
    for path in paths:
        try:
            disk.write_file(f"{path}/{FILE}", _format(views))
            written += 1
        except OSError as failed:
            problem = failed
    if problem is not None and not written:
        raise problem


def _format(views: Sequence[View]) -> bytes:
    listed = [{"since": view.since, "directories": sorted(view.directories)} for view in views]
    return json.dumps({"version": 0, "brokerEpoch": views[-1].since if views else None, "views": listed}).encode()


def _holds(disk: Disk, path: str, views: Sequence[View]) -> bool:
    try:
        return read_if_present(disk, f"{path}/{FILE}") == _format(views)
    except OSError:
        return True  # it cannot be written either


def _read_all(disk: Disk, paths: Sequence[str]) -> tuple[list[View], bool]:
    """The views of all files, the oldest first; whether any file says that the data was only just claimed."""
    found: dict[int, frozenset[str]] = {}
    is_begun = False
    for path in paths:
        views = _read(disk, path)
        is_begun |= views == []
        for view in views or ():
            found[view.since] = found.get(view.since, frozenset()) | view.directories
    return [View(since, found[since]) for since in sorted(found)], is_begun


def _read(disk: Disk, path: str) -> list[View] | None:
    """None if nothing is known."""
    try:
        text = read_if_present(disk, f"{path}/{FILE}")
        if text is None:
            return None
        content = json.loads(text)
        views = [View(int(each["since"]), _ids(each["directories"])) for each in content.get("views", ())]
        epoch = content["brokerEpoch"]
        return views if views or epoch is None else [View(int(epoch), frozenset())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        logger.error("event=data-since-unreadable path=%s", f"{path}/{FILE}")
        return None


def _ids(values: Iterable[object]) -> frozenset[str]:
    return frozenset(str(value) for value in values)
