"""`kafka-streams-application-reset`: sets the offsets of an application's inputs back and deletes its internal
topics.
"""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.cli.resets import ResetTo
    from headwater.client.admin import Admin

ABOUT: Final = (
    "This tool helps to quickly reset an application in order to reprocess its data from scratch. It sets the offsets of input "
    "topics back, and deletes the internal topics of the application. It does not delete output topics. State on the disks of "
    "Headwater's applications is left alone by itself afterwards; that of Kafka Streams' is to be cleaned up."
)
OPTIONS: Final = (
    Option("bootstrap-server", "The server(s) to connect to. (default: localhost:9092)", "server to connect to"),
    COMMAND_CONFIG,
    Option("config-file", "The old name of --command-config.", "file name"),
    Option("application-id", "REQUIRED: The Kafka Streams application ID (application.id).", "id"),
    Option("input-topics", "Comma-separated list of user input topics, whose offsets are reset.", "list"),
    Option("intermediate-topics", "Comma-separated list of intermediate user topics: set to their end.", "list"),
    Option("internal-topics", "Comma-separated list of internal topics to delete, in place of all.", "list"),
    Option("to-offset", "Reset offsets to a specific offset.", "Long"),
    Option("to-datetime", "Reset offsets to offset from datetime: 'YYYY-MM-DDTHH:mm:SS.sss'", "String"),
    Option("by-duration", "Reset offsets to offset by duration from current timestamp: 'PnDTnHnMnS'", "String"),
    Option("to-earliest", "Reset offsets to earliest offset."),
    Option("to-latest", "Reset offsets to latest offset."),
    Option("from-file", "Reset offsets to values defined in CSV file.", "String"),
    Option("shift-by", "Reset offsets shifting current offset by 'n', positive or negative.", "Long"),
    Option("force", "Force the removal of members of the consumer group that are left over."),
    Option("dry-run", "Display the actions that would be performed without executing them."),
)
_TARGETS: Final = ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "shift-by")


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected, read_properties

    options.require("application-id")
    for target in _TARGETS:
        options.refuse_together(target, *_TARGETS)
    if "bootstrap-server" not in options:
        options = options.with_value("bootstrap-server", "localhost:9092")
    properties = read_properties(path) if (path := options.get("config-file")) else None
    with connected(options, properties) as admin:
        _remove_members(admin, options)
        topics = [topic.name for topic in admin.list_topics()]
        if "dry-run" in options:
            _say("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
        status = _reset_offsets(admin, options, topics)
        _delete_internal(admin, options, topics)
    return status


def _remove_members(admin: "Admin", options: Options) -> None:
    from headwater.cli.stream_reset import members_of

    group = options.get("application-id") or ""
    members = members_of(admin, group)
    if not members:
        return
    if "force" not in options:
        raise Stop(
            1,
            f"ERROR: java.lang.IllegalStateException: Consumer group '{group}' is still active and has following members: "
            f"[{', '.join(member.member_id for member in members)}]. Make sure to stop all running application instances "
            "before running the reset tool. You can use option '--force' to remove active members from the group.",
        )
    _say(f"Force deleting all active members in the group: {group}")
    admin.remove_members(group)


def _reset_offsets(admin: "Admin", options: Options, topics: list[str]) -> int:
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.cli.resets import Latest, plan_reset
    from headwater.client.outcomes import all_or_raise

    inputs, intermediates = _list(options, "input-topics"), _list(options, "intermediate-topics")
    if not inputs and not intermediates:
        _say("No input or intermediate topics specified. Skipping seek.")
        return 0
    group = options.get("application-id") or ""
    offsets: dict[TopicPartition, int] = {}
    status = 0
    for kind, wanted, words in (
        ("input", inputs, "Reset-offsets for input topics"),
        ("intermediate", intermediates, "Seek-to-end for intermediate topics"),
    ):
        if not wanted:
            continue
        _say(f"{words} [{', '.join(wanted)}]")
        missing = [topic for topic in wanted if topic not in topics]
        if missing:
            status = 1
            _say(f"Following {kind} topics are not found, skipping them")
            for topic in missing:
                _say(f"Topic: {topic}")
        there = [topic for topic in wanted if topic in topics]
        if not there:
            continue
        target = _target(options, group) if kind == "input" else Latest()
        plan = plan_reset(admin, group, parse_topic_partitions(admin, there), target)
        for note in plan.notes:
            _say(note)
        end = "to" if kind == "input" else "to end"
        _say(f"Following {kind} topics offsets will be reset {end} (for consumer group {group})")
        for partition, offset in sorted(plan.offsets.items()):
            _say(f"Topic: {partition.topic} Partition: {partition.partition} Offset: {offset}")
        offsets |= plan.offsets
    if offsets and "dry-run" not in options:
        all_or_raise(admin.alter_group_offsets(group, offsets))
    _say("Done.")
    return status


def _target(options: Options, group: str) -> "ResetTo":
    from headwater.cli.kafka.consumer_groups_reset import datetime_ms, duration_ms
    from headwater.cli.resets import Earliest, Latest, Planned, ShiftBy, ToOffset, ToTime, read_plan_file

    if "to-offset" in options:
        return ToOffset(options.number("to-offset") or 0)
    if "shift-by" in options:
        return ShiftBy(options.number("shift-by") or 0)
    if "to-latest" in options:
        return Latest()
    if "to-datetime" in options:
        return ToTime(datetime_ms(options.get("to-datetime") or ""))
    if "by-duration" in options:
        return ToTime(time.time_ns() // 1_000_000 - duration_ms(options.get("by-duration") or ""))
    path = options.get("from-file")
    return Earliest() if path is None else Planned(read_plan_file(path, [group]).get(group, {}))


def _delete_internal(admin: "Admin", options: Options, topics: list[str]) -> None:
    from headwater.cli.stream_reset import delete_topics, internal_topics

    users = [*_list(options, "input-topics"), *_list(options, "intermediate-topics")]
    inferred = internal_topics(options.get("application-id") or "", topics, users=users)
    named = _list(options, "internal-topics")
    if not set(named) <= set(inferred):
        raise Usage(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all internal topics. "
            "Do a dry run without the --internal-topics option to see the list of all internal topics that can be deleted."
        )
    _say(f"Deleting {'specified' if named else 'inferred'} internal topics [{', '.join(named or inferred)}]")
    if "dry-run" not in options:
        delete_topics(admin, named or inferred)
    _say("Done.")


def _list(options: Options, name: str) -> list[str]:
    return [topic for text in options.all(name) for topic in text.split(",") if topic]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
