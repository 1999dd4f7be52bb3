"""Where the changelogs of a task are read from, so that its state on disk, or an empty one, becomes what they say.

Whoever opens a task asks this, and whoever keeps a copy of another slot's (`standby`). The rows of a store that do not
fit its changelog (it is shorter, its beginning is gone, the topic was deleted and made anew) or its plan (they have no
times where the store has a time to live, or lie otherwise: `layout`) are wiped, and read again from the changelog's
beginning. Each store has a position of its own, so the others stay, also those without a changelog, and the times of
operators. Only where all changelogs were made anew, which is what a reset leaves, the whole state goes: it is of
records that come again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.types import EARLIEST, READ_UNCOMMITTED
from headwater.streams.stores.expiring import forget_times, note_times, times_fit
from headwater.streams.stores.layout import layout_fits, note_layout
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import ChangelogPartition, TaskState
from headwater.streams.topology.topology import SubTopology


@dataclass(slots=True)
class RestoreProgress:
    """Changed by the thread that restores, read by any. `offsets` are more than `records`: some hold none."""

    records: int = 0
    offsets: int = 0
    offsets_total: int = 0
    begins: Mapping[ChangelogPartition, int] = field(default_factory=dict)
    ends: Mapping[ChangelogPartition, int] = field(default_factory=dict)  # in the order in which they are read

    def positions(self) -> Iterator[tuple[ChangelogPartition, int, int]]:
        """How far each changelog is read, and where it ends: they are read one after the other."""
        left = self.offsets
        for changelog, end in self.ends.items():
            begin = self.begins[changelog]
            read = min(left, end - begin)
            left -= read
            yield changelog, begin + read, end


def changelogs_of(plan: SubTopology, partition: int, application_id: str) -> dict[ChangelogPartition, StoreSpec]:
    """Of a task. A store whose changelog is its source topic is not among them: it is read again."""
    return {
        ChangelogPartition(topic, partition): store.spec
        for store in plan.stores
        if (topic := store.changelog_topic(application_id)) is not None and store.source_topic is None
    }


def offsets_of(
    admin: Admin, changelogs: Mapping[ChangelogPartition, StoreSpec], which: int, level: int
) -> dict[ChangelogPartition, int]:
    if not changelogs:
        return {}
    wanted = {TopicPartition(each.topic, each.partition): which for each in changelogs}
    found = {}
    for partition, answer in admin.list_offsets(wanted, isolation_level=level).items():
        if isinstance(answer, KafkaError):
            raise answer
        found[ChangelogPartition(partition.topic, partition.partition)] = answer.offset
    return found


@dataclass(frozen=True, slots=True)
class ChangelogBounds:
    """What the brokers say of a task's changelogs. `ends`: high watermarks."""

    changelogs: Mapping[ChangelogPartition, StoreSpec]
    begins: Mapping[ChangelogPartition, int]
    ends: Mapping[ChangelogPartition, int]
    topic_ids: Mapping[str, bytes]


def ask_bounds(
    admin: Admin, changelogs: Mapping[ChangelogPartition, StoreSpec], ends: Mapping[ChangelogPartition, int]
) -> ChangelogBounds:
    begins = offsets_of(admin, changelogs, EARLIEST, READ_UNCOMMITTED)
    return ChangelogBounds(
        changelogs, begins, ends, {each.topic: admin.describe_topic(each.topic).topic_id for each in ends}
    )


def read_from(plan: SubTopology, state: TaskState, bounds: ChangelogBounds) -> dict[ChangelogPartition, int]:
    """The first offset of each changelog that the state does not have. Wipes what does not fit."""
    begins, ends, topic_ids = bounds.begins, bounds.ends, bounds.topic_ids
    known, notes, specs = state.positions, state.notes, [store.spec for store in plan.stores]
    held = [each for each in ends if each in known]
    anew = {each for each in held if notes.get(_note(each.topic)) != topic_ids[each.topic]}
    if held and len(anew) == len(held):
        state.wipe()
    else:
        changelogs = {spec.name: where for where, spec in bounds.changelogs.items()}
        misfits = anew | {each for each in held if not begins[each] <= known[each] <= ends[each]}
        for spec in specs:
            where = changelogs.get(spec.name)
            if where in misfits or not times_fit([spec], state) or not layout_fits(spec, state):
                state.forget_store(spec, [] if where is None else [where])
                forget_times(spec, state)
    for topic, topic_id in topic_ids.items():
        notes.put(_note(topic), topic_id)
    note_times(specs, state)
    for spec in specs:
        note_layout(spec, state)
    known = state.positions
    return {each: known.get(each, begins[each]) for each in ends}


def _note(topic: str) -> bytes:
    return b"topic-id\x00" + topic.encode()
