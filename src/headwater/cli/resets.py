"""Where a group's offsets are set to: the ways to say it, and what each means for a partition.

`decide` is pure. `plan_reset` asks the cluster for what `decide` needs to know. An offset outside a partition is moved
to its nearer end; a time after the last record means the end. Both are told in the plan's notes, as Kafka's own tool
tells them.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition

if TYPE_CHECKING:
    from headwater.client.admin import Admin


class Earliest(NamedTuple):
    pass


class Latest(NamedTuple):
    pass


class Current(NamedTuple):
    """What is committed; the end where nothing is."""


class ToOffset(NamedTuple):
    offset: int


class ToTime(NamedTuple):
    timestamp_ms: int


class ShiftBy(NamedTuple):
    shift: int


class Planned(NamedTuple):
    """An offset for each partition, from a file."""

    offsets: Mapping[TopicPartition, int]


ResetTo = Earliest | Latest | Current | ToOffset | ToTime | ShiftBy | Planned


class Known(NamedTuple):
    """What is known of one partition. -1: no record is that young; None: nothing is committed."""

    first: int
    last: int
    at_time: int = -1
    committed: int | None = None


class ResetPlan(NamedTuple):
    offsets: dict[TopicPartition, int]
    notes: list[str]


class CannotShift(UserError):
    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"Cannot shift offset for partition {partition} since there is no current committed offset")


def decide(target: ResetTo, known: Mapping[TopicPartition, Known]) -> ResetPlan:
    plan = ResetPlan({}, [])
    for partition, state in sorted(known.items()):
        match target:
            case Earliest():
                wanted = state.first
            case Latest():
                wanted = state.last
            case Current():
                plan.offsets[partition] = state.last if state.committed is None else state.committed
                continue
            case ToOffset(offset):
                wanted = offset
            case Planned(offsets):
                wanted = offsets[partition]
            case ShiftBy(shift):
                if state.committed is None:
                    raise CannotShift(partition)
                wanted = state.committed + shift
            case ToTime():
                wanted = state.at_time
                if wanted < 0:
                    wanted = state.last
                    plan.notes.append(
                        f"Partition {partition.partition} from topic {partition.topic} is empty. "
                        "Falling back to latest known offset."
                    )
        plan.offsets[partition] = _within(partition, wanted, state, plan.notes)
    return plan


def _within(partition: TopicPartition, wanted: int, state: Known, notes: list[str]) -> int:
    if wanted > state.last:
        notes.append(
            f"New offset ({wanted}) is higher than latest offset for topic partition {partition}. "
            f"Value will be set to {state.last}"
        )
        return state.last
    if wanted < state.first:
        notes.append(
            f"New offset ({wanted}) is lower than earliest offset for topic partition {partition}. "
            f"Value will be set to {state.first}"
        )
        return state.first
    return wanted


def plan_reset(admin: "Admin", group_id: str, partitions: Iterable[TopicPartition], target: ResetTo) -> ResetPlan:
    """What the offsets of these partitions become; with a plan from a file, of those in it."""
    from headwater.client.outcomes import all_or_raise
    from headwater.client.types import EARLIEST, LATEST

    wanted = sorted(target.offsets if isinstance(target, Planned) else set(partitions))

    def ask(timestamp: int) -> dict[TopicPartition, int]:
        answers = all_or_raise(admin.list_offsets(dict.fromkeys(wanted, timestamp)))
        return {partition: answer.offset for partition, answer in answers.items()}

    first, last = ask(EARLIEST), ask(LATEST)
    at_time = ask(target.timestamp_ms) if isinstance(target, ToTime) else {}
    committed = admin.list_group_offsets(group_id) if isinstance(target, Current | ShiftBy) else {}
    known = {
        each: Known(
            first[each], last[each], at_time.get(each, -1), committed[each].offset if each in committed else None
        )
        for each in wanted
    }
    return decide(target, known)


def read_plan(text: str, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """Lines of `topic,partition,offset` for one group, or of `group,topic,partition,offset`, as `--export` writes
    them.
    """
    import csv

    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row:
            continue
        try:
            if len(row) == 3 and len(groups) == 1:
                group, topic, partition, offset = groups[0], *row
            else:
                group, topic, partition, offset = row
            plans.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise UserError(
                f"Cannot read line {number} of the reset plan: {','.join(row)}",
                "it is neither topic,partition,offset for one group nor group,topic,partition,offset",
            ) from None
    return plans


class PlanUnreadable(UserError):
    """The file of a plan is not there, or may not be read."""


def read_plan_file(path: str, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as problem:
        raise PlanUnreadable(f"Unable to read file {path}", problem.strerror or str(problem)) from None
    except UnicodeDecodeError:
        raise UserError(f"Unable to read file {path}", "it is no text in UTF-8") from None
    return read_plan(text, groups)


def csv_line(*fields: object) -> str:
    import csv
    import io

    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()
