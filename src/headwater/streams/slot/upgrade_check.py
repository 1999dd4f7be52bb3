"""Refuses to start an application whose new topology would lose what its former run on this machine has kept.

Each start leaves a note beside the state on disk (`topology.json`); the next one is compared with it. What is not in
the cluster any more (the application was reset, topics were deleted) is no loss. On a machine where the application has
not run there is no note, and nothing is refused.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.client.types import LATEST
from headwater.streams.topics.internal import partitions_of
from headwater.streams.topology.topology import Topology
from headwater.streams.topology.upgrades import Losses, losses, note_of, read_note

_NOTE: Final = "topology.json"


def check_upgrade(
    admin: Admin,
    reader: Callable[[], RangeReader],
    application_id: str,
    topology: Topology,
    directory: Path,
    *,
    allowed: bool,
) -> None:
    """`reader`: of what is committed; `directory`: of the application's state. Raises UserError, with how to migrate,
    unless a loss is allowed.
    """
    path = directory / _NOTE
    new = note_of(topology)
    former = None
    with contextlib.suppress(OSError, ValueError):
        former = read_note(path.read_text())
    if former == new:
        return
    if former is not None and not allowed:
        found = _still_there(admin, reader, application_id, losses(former, new))
        if found:
            raise refusal(application_id, found)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(new.to_json())
        fresh.replace(path)
    except OSError as error:
        raise UserError(
            f"The state of {application_id} cannot be written to {directory}",
            error.strerror or str(error),
            "Name another directory: state_dir=, --state-dir",
        ) from None


def _still_there(admin: Admin, reader: Callable[[], RangeReader], application_id: str, found: Losses) -> Losses:
    names = {f"{application_id}-{store}-changelog" for store in (*found.stores, *found.mistaken)}
    names |= {f"{application_id}-{topic}" for topic in found.repartitions}
    there = partitions_of(admin, names)

    def kept(stores: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(store for store in stores if f"{application_id}-{store}-changelog" in there)

    waiting = tuple(
        topic
        for topic in found.repartitions
        if (name := f"{application_id}-{topic}") in there and has_lag(admin, reader, application_id, name, there[name])
    )
    return Losses(kept(found.stores), kept(found.mistaken), waiting)


def has_lag(admin: Admin, reader: Callable[[], RangeReader], application_id: str, topic: str, partitions: int) -> bool:
    """Whether records wait in it that the former version has made, and not processed. Offsets alone do not tell: behind
    the last record there may be markers of transactions.
    """
    wanted = [TopicPartition(topic, index) for index in range(partitions)]
    committed = admin.list_group_offsets(application_id, wanted)
    ends, behind = {}, {}
    for partition, end in admin.list_offsets(dict.fromkeys(wanted, LATEST)).items():
        if isinstance(end, KafkaError):
            raise end
        start = committed[partition].offset if partition in committed else 0
        if end.offset > start:
            ends[partition], behind[partition] = end.offset, start
    if not behind:
        return False
    with reader() as opened:
        stable = opened.ends(list(behind), earliest=False)
        return any(
            stable[each] < ends[each]  # a transaction is open: the former version is not done
            or next(opened.records(each, start, stable[each], lost="skip"), None) is not None
            for each, start in behind.items()
        )


def refusal(application_id: str, found: Losses) -> UserError:
    reasons = []
    if found.stores:
        reasons.append(f"no operator has these stores any more: {', '.join(found.stores)}")
    if found.mistaken:
        reasons.append(f"these names belong to other operators now: {', '.join(found.mistaken)}")
    if found.repartitions:
        reasons.append(f"records wait in topics that nobody would read: {', '.join(found.repartitions)}")
    example = (*found.stores, *found.mistaken, *found.repartitions)[0]
    return UserError(
        f"The topology of {application_id} has changed, and what it has kept would be lost",
        "; ".join(reasons),
        f'Name the operators: store="{example}" keeps what is there, and names of your own (store=, name=) stay when others are '
        "added; or let the former version finish; or begin anew with headwater stream reset; or accept the loss: "
        "allow_state_loss=True, --allow-state-loss",
    )
