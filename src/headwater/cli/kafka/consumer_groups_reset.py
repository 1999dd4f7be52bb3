"""`kafka-consumer-groups --reset-offsets` and `--delete-offsets`: every way to name an offset, and what became of
it.
"""

import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import Options, Usage
from headwater.cli.resets import (
    CannotShift,
    Current,
    Earliest,
    Latest,
    Planned,
    PlanUnreadable,
    ResetPlan,
    ResetTo,
    ShiftBy,
    ToOffset,
    ToTime,
    csv_line,
    plan_reset,
    read_plan_file,
)

if TYPE_CHECKING:
    from headwater.client.admin import Admin

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)


def reset(admin: "Admin", groups: list[str], options: Options) -> None:
    from headwater.cli.kafka.exits import print_error

    plans: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        state = _state(admin, group)
        if state not in ("Empty", "Dead"):
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            plans[group] = {}
            continue
        plan = _plan(admin, group, groups, options)
        _tell(plan)
        if "execute" in options and plan.offsets:
            _commit(admin, group, plan.offsets)
        plans[group] = plan.offsets
    if "export" in options:
        _export(plans, with_group=len(options.all("group")) != 1)
    else:
        _table(plans)


def _state(admin: "Admin", group: str) -> str:
    try:
        return admin.describe_group(group).state
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "Dead"  # a group may get its offsets before its first member


def _plan(admin: "Admin", group: str, groups: list[str], options: Options) -> ResetPlan:
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.cli.kafka.exits import print_error

    target = _target(group, groups, options)
    if target is None:
        print_error(f"No reset plan for group {group} found")
        return ResetPlan({}, [])
    scope: list[TopicPartition] = []
    if "all-topics" in options:
        scope = list(admin.list_group_offsets(group))
    elif "topic" in options:
        scope = parse_topic_partitions(admin, options.all("topic"))
    try:
        return plan_reset(admin, group, scope, target)
    except CannotShift as problem:
        raise Usage(problem.what) from None


def _target(group: str, groups: list[str], options: Options) -> ResetTo | None:
    """Where to; None if a file has nothing about this group."""
    if "to-offset" in options:
        return ToOffset(options.number("to-offset") or 0)
    if "shift-by" in options:
        return ShiftBy(options.number("shift-by") or 0)
    if "to-earliest" in options:
        return Earliest()
    if "to-latest" in options:
        return Latest()
    if "to-current" in options:
        return Current()
    now_ms = time.time_ns() // 1_000_000
    if "to-datetime" in options:
        return ToTime(datetime_ms(options.get("to-datetime") or ""))
    if "by-duration" in options:
        return ToTime(now_ms - duration_ms(options.get("by-duration") or ""))
    path = options.get("from-file") or ""
    try:
        plan = read_plan_file(path, groups).get(group)
    except PlanUnreadable:
        raise UserError(f"java.io.IOException: Unable to read file {path}") from None
    return Planned(plan) if plan is not None else None


def datetime_ms(text: str) -> int:
    """ISO 8601 with a T: `2026-01-31T12:00:00.000`, UTC unless a zone stands behind it."""
    if "T" not in text:
        raise UserError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f'java.text.ParseException: Unparseable date: "{text}"') from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_ms(text: str) -> int:
    """ISO 8601 as Java reads it: `P1DT2H30M`, `PT90.5S`, each amount with a sign of its own if need be."""
    matched = _DURATION.fullmatch(text)
    if matched is None or text.upper().endswith(("P", "T")):
        raise UserError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = matched.groups()
    total_ms = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    part_ms = int((fraction or "").ljust(3, "0")[:3])
    total_ms += int(seconds or 0) * 1000 + (-part_ms if (seconds or "").startswith("-") else part_ms)
    return -total_ms if sign == "-" else total_ms


def _tell(plan: ResetPlan) -> None:
    """That a time lies behind the last record is told on stdout; that an offset was moved, in the log of Kafka's
    tool.
    """
    for note in plan.notes:
        if "Falling back" in note:
            sys.stdout.write(f"\nWarn: {note}\n")
        else:
            sys.stderr.write(f"WARN {note}\n")


def _commit(admin: "Admin", group: str, offsets: dict[TopicPartition, int]) -> None:
    for error in admin.alter_group_offsets(group, offsets).values():
        if error is not None:
            raise error


def _table(plans: dict[str, dict[TopicPartition, int]]) -> None:
    rows = [
        (group, each.topic, str(each.partition), str(offset))
        for group, offsets in plans.items()
        for each, offset in offsets.items()
    ]
    wide = [max([15, *(len(group) for group in plans)]), max([15, *(len(row[1]) for row in rows)])]
    for row in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows]:
        sys.stdout.write(f"\n{row[0]:<{wide[0]}} {row[1]:<{wide[1]}} {row[2]:<10} {row[3]}")
    sys.stdout.write("\n")


def _export(plans: dict[str, dict[TopicPartition, int]], *, with_group: bool) -> None:
    for group, offsets in plans.items():
        for each, offset in offsets.items():
            fields = (each.topic, each.partition, offset)
            sys.stdout.write(csv_line(group, *fields) if with_group else csv_line(*fields))
    sys.stdout.write("\n")


def delete_offsets(admin: "Admin", group: str, specs: list[str]) -> None:
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.cli.kafka.exits import java_text, message_of, print_error
    from headwater.client.errors import UnknownTopic

    outcome: dict[tuple[str, str], str] = {}
    wanted: list[TopicPartition] = []
    for spec in specs:
        try:
            wanted += parse_topic_partitions(admin, [spec])
        except UnknownTopic as error:
            outcome[error.topic, "-"] = f"Error: {java_text(error)}"
    try:
        answers = admin.delete_group_offsets(group, wanted)
    except KafkaError as error:
        print_error(message_of(error))
        answers = dict.fromkeys(wanted, error)
    else:
        if any(answers.values()):
            print_error("Encountered some partition-level error, see the follow-up details.")
        else:
            sys.stdout.write(f"Request succeeded for deleting offsets from group {group}.\n")
    for partition, failure in answers.items():
        status = "Successful" if failure is None else f"Error: {java_text(failure)}"
        outcome[partition.topic, str(partition.partition)] = status
    wide = max([15, *(len(topic) for topic, _ in outcome)])
    sys.stdout.write(f"\n{'TOPIC':<{wide}} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, index), status in sorted(outcome.items()):
        sys.stdout.write(f"\n{topic:<{wide}} {index:<10} {status:<15}")
    sys.stdout.write("\n")
