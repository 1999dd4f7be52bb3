"""The status of an application: one document for eyes, programs and `headwater stream status`. Pure.

    application, state, process, records, dropped, error
    slots   slot, process, tasks, records
    tasks   task, slot, state, restored_records, restored_offsets, restore_offsets, lag, inputs, standbys
            (slot, lag, restored_records)
    errors  what went wrong lately and was overcome, the latest last: at_ms, slot, error

State of the application: starting, running, paused (until it is resumed), restoring, rebalancing (tasks have no slot,
or are on their way to one), stopping, stopped, failed. State of a task: running; restoring (its slot reads its
changelogs: so many offsets of so many); moving (it had a slot, and has none at the moment); waiting (it never had one).
"""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_ERRORS_MAX: Final = 10

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """`tasks`: those that the lead knows it to have; `rows`: what it tells of its tasks, also of those that it is
    restoring.
    """

    slot: int
    process: str
    life: int
    tasks: Sequence[str]
    records: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    rows: Sequence[Row] = ()
    errors: Sequence[Row] = ()
    standbys: Sequence[Row] = ()
    queries: str = ""


def this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def document(
    application: str,
    tasks: Sequence[str],
    slots: Sequence[SlotStatus],
    had_slot: Iterable[str] = (),
    *,
    phase: str = "",
    records_before: int = 0,
    errors: Sequence[Row] = (),
    paused: bool = False,
) -> dict[str, Any]:
    """`had_slot`: tasks that some slot has had. `phase`: starting or stopping, where that is known; else it follows
    from the tasks.
    """
    told = {row["task"]: (slot, row) for slot in slots for row in slot.rows}
    owners = {task: slot for slot in slots for task in slot.tasks}
    before = set(had_slot)
    rows = [_task(task, owners.get(task), told.get(task), before) for task in tasks]
    copies: dict[str, list[Row]] = {}
    for slot in slots:
        for copy in slot.standbys:
            found = {"slot": slot.slot, "lag": copy["lag"], "restored_records": copy["restored_records"]}
            copies.setdefault(copy["task"], []).append(found)
    for row in rows:
        row["standbys"] = copies.get(row["task"], [])
    noted = [{**each, "slot": slot.slot} for slot in slots for each in slot.errors] + list(errors)
    return {
        "application": application,
        "state": phase or _state(rows, paused),
        "process": this_process(),
        "slots": [
            {
                "slot": each.slot,
                "process": each.process,
                "life": each.life,
                "tasks": list(each.tasks),
                "records": each.records,
                "queries": each.queries,
            }
            for each in slots
        ],
        "tasks": rows,
        "tasks_waiting": [task for task in tasks if task not in owners],
        "records": records_before + sum(each.records for each in slots),
        "dropped": _sum(each.dropped for each in slots),
        "errors": sorted(noted, key=lambda each: int(each["at_ms"]))[-_ERRORS_MAX:],
        "error": "",
    }


def _task(task: str, owner: SlotStatus | None, told: tuple[SlotStatus, Row] | None, had_slot: set[str]) -> Row:
    slot, row = told if told is not None else (owner, {})
    if row:
        state = str(row["state"])
    elif owner is not None:
        state = "running"
    else:
        state = "moving" if task in had_slot else "waiting"
    inputs = list(row.get("inputs", ()))
    lags = [each["lag"] for each in inputs]
    return {
        "task": task,
        "slot": slot.slot if slot is not None else None,
        "state": state,
        "restored_records": row.get("restored_records", 0),
        "restored_offsets": row.get("restored_offsets", 0),
        "restore_offsets": row.get("restore_offsets", 0),
        "lag": sum(lags) if lags and None not in lags else None,
        "inputs": inputs,
    }


def _state(rows: Sequence[Row], paused: bool) -> str:
    states = {row["state"] for row in rows}
    if states & {"moving", "waiting"}:
        return "rebalancing"
    if "restoring" in states:
        return "restoring"
    return "paused" if paused else "running"


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for reason, count in each.items():
            total[reason] = total.get(reason, 0) + count
    return total
