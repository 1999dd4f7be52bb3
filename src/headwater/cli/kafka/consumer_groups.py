"""`kafka-consumer-groups`: list, describe and delete consumer groups, reset and delete their offsets.

As Kafka's own, it exits with 0 also when the cluster refused something: what went wrong stands on stdout, behind
`Error:`.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.client.admin import Admin

ABOUT: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets."
)
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List all consumer groups."),
    Option("describe", "Describe consumer group and list offset lag related to given group."),
    Option("delete", "Delete groups with all their offsets. For instance --group g1 --group g2"),
    Option("reset-offsets", "Reset offsets of inactive groups; only shows what would be done without --execute."),
    Option("delete-offsets", "Delete offsets of one group, of the topics given with --topic."),
    Option("validate-regex", "Validate the syntax of a regular expression for a subscription.", "regex"),
    Option("group", "The consumer group we wish to act on.", "consumer group"),
    Option("all-groups", "Apply to all consumer groups."),
    Option("topic", "A topic, or some of its partitions: topic1:0,1,2. May come several times.", "topic"),
    Option("all-topics", "Consider all topics that the group has offsets for."),
    Option("timeout", "The time that some calls may take.", "timeout (ms)"),
    Option("dry-run", "Only show results without executing changes."),
    Option("execute", "Execute the operation."),
    Option("export", "Print the result in CSV format, as --from-file takes it."),
    Option("to-offset", "Reset offsets to a specific offset.", "offset"),
    Option("from-file", "Reset offsets to values defined in CSV file.", "path to CSV file"),
    Option("to-datetime", "Reset offsets to offset from datetime. Format: 'YYYY-MM-DDTHH:mm:SS.sss'", "datetime"),
    Option("by-duration", "Reset offsets to a duration before now. Format: 'PnDTnHnMnS'", "duration"),
    Option("to-earliest", "Reset offsets to earliest offset."),
    Option("to-latest", "Reset offsets to latest offset."),
    Option("to-current", "Reset offsets to current offset."),
    Option("shift-by", "Reset offsets shifting current offset by 'n', which may be negative.", "number-of-offsets"),
    Option("members", "Describe members of the group."),
    Option("offsets", "Describe the group's partitions with their lag. This is the default."),
    Option(
        "state",
        "With --describe: the state of the group. With --list: also the states, or those given.",
        "states",
        True,
    ),
    Option("type", "With --list: also the types, or those given.", "types", True),
    Option("verbose", "Provide additional information, if any, when describing the group."),
)
SCENARIOS: Final = (
    "from-file",
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
    "to-offset",
    "shift-by",
)
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_NO_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are scripting "
    "this command and want to keep the current default behavior without prompting.\n"
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected
    from headwater.cli.kafka.exits import exception_name, print_error

    check(options)
    if "validate-regex" in options:
        return _validate_regex(options.get("validate-regex") or "")
    try:
        with connected(options) as admin:
            _do(admin, options)
    except KafkaError as error:
        from headwater.cli.kafka.exits import exception_name, print_error
        from headwater.client.errors import BootstrapFailed

        if isinstance(error, BootstrapFailed):
            raise
        text = f"org.apache.kafka.common.errors.{exception_name(error.code)}: {error.message or error.code.name}"
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = "This server does not host this topic-partition."
        print_error(f"Executing consumer group command failed due to {text}")
    except UserError as error:
        print_error(f"Executing consumer group command failed due to {error}")
    return 0


def check(options: Options) -> None:
    """What Kafka's tool refuses before it connects, in the same order and words."""
    if "validate-regex" not in options:
        options.bootstrap()
    if "describe" in options:
        _need_group(options, "describe")
        if sum(name in options for name in ("members", "offsets", "state")) > 1:
            raise Usage("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.get("state") is not None:
            raise Usage("Option [describe] does not take a value for [state]")
    for name, needed in (("members", "describe"), ("offsets", "describe"), ("verbose", "describe"), ("type", "list")):
        if name in options and needed not in options:
            raise Usage(f"Option(s) [{name}] are unavailable given other options on the command line")
    if "delete" in options:
        _need_group(options, "delete")
        if "topic" in options:
            raise Usage("The consumer does not support topic-specific offset deletion from a consumer group.")
    if "delete-offsets" in options and not ("group" in options and "topic" in options):
        raise Usage("Option [delete-offsets] takes the following options: [group], [topic]")
    if "reset-offsets" in options:
        _check_reset(options)
    options.refuse_together("group", "all-groups", "list")
    options.refuse_together("topic", "list", "describe")
    if sum(name in options for name in _ACTIONS) != 1:
        raise Usage(f"Command must include exactly one action: {', '.join(f'--{name}' for name in _ACTIONS)}")


def _need_group(options: Options, action: str) -> None:
    if "group" not in options and "all-groups" not in options:
        raise Usage(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _check_reset(options: Options) -> None:
    if "dry-run" in options and "execute" in options:
        raise Usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in options and "execute" not in options:
        sys.stderr.write(_NO_EXECUTE)
    _need_group(options, "reset-offsets")
    for name in ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by"):
        options.refuse_together(name, *SCENARIOS)
    if not any(name in options for name in SCENARIOS):
        listed = ", ".join(f"[{name}]" for name in SCENARIOS)
        raise Usage(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")
    if not any(name in options for name in ("all-topics", "topic", "from-file")):
        raise Usage("One of the reset scopes should be defined: --all-topics, --topic.")
    for text in options.all("topic"):
        _, colon, partitions = text.partition(":")
        for partition in partitions.split(",") if colon else ():
            if not (partition.isascii() and partition.isdigit()):
                raise Usage(f"Invalid partition '{partition}' specified in topic arg '{text}'")


def _do(admin: "Admin", options: Options) -> None:
    from headwater.cli.kafka import consumer_groups_describe, consumer_groups_reset

    if "list" in options:
        _list(admin, options)
    elif "describe" in options:
        consumer_groups_describe.describe(admin, chosen_groups(admin, options), options)
    elif "delete" in options:
        _delete(admin, chosen_groups(admin, options))
    elif "reset-offsets" in options:
        consumer_groups_reset.reset(admin, chosen_groups(admin, options), options)
    else:
        consumer_groups_reset.delete_offsets(admin, options.get("group") or "", options.all("topic"))


def chosen_groups(admin: "Admin", options: Options) -> list[str]:
    if "all-groups" in options:
        return [each.group_id for each in admin.list_groups() if each.protocol_type in ("", "consumer")]
    return list(dict.fromkeys(options.all("group")))


def _list(admin: "Admin", options: Options) -> None:
    states = _chosen_states(options.get("state"))
    types = [each.strip().lower() for each in (options.get("type") or "").split(",") if each.strip()]
    unknown = [each for each in types if each not in ("classic", "consumer")]
    if unknown:
        raise Usage(f"Invalid types list '{options.get('type')}'. Valid types are: Classic, Consumer")
    found = [each for each in admin.list_groups(states=states, types=types) if each.protocol_type in ("", "consumer")]
    if "state" not in options and "type" not in options:
        sys.stdout.writelines(f"{each.group_id}\n" for each in found)
        return
    width = max([15, *(len(each.group_id) for each in found)]) + 10
    for group, kind, state in [
        ("GROUP", "TYPE", "STATE"),
        *((g.group_id, g.type.capitalize(), g.state) for g in found),
    ]:
        line = f"{group:<{width}}"
        line += f" {kind:<20}" if "type" in options else ""
        line += f" {state:<20}" if "state" in options else ""
        sys.stdout.write(f"{line}\n")


def _chosen_states(text: str | None) -> list[str]:
    from headwater.client.admin.groups import STATES

    spelled = {state.lower(): state for state in STATES}
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if any(name.lower() not in spelled for name in names):
        raise Usage(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES)}")
    return [spelled[name.lower()] for name in names]


def _delete(admin: "Admin", groups: list[str]) -> None:
    from headwater.cli.kafka.exits import java_text, print_error

    outcome = admin.delete_groups(groups)
    deleted = ", ".join(f"'{group}'" for group, error in outcome.items() if error is None)
    failed = {group: error for group, error in outcome.items() if error is not None}
    if not failed:
        sys.stdout.write(f"Deletion of requested consumer groups ({deleted}) was successful.\n")
        return
    print_error("Deletion of some consumer groups failed:")
    for group, error in failed.items():
        sys.stdout.write(f"* Group '{group}' could not be deleted due to: {java_text(error)}\n")
    if deleted:
        sys.stdout.write(f"\nThese consumer groups were deleted successfully: {deleted}\n")


def _validate_regex(pattern: str) -> int:
    """Subscriptions are RE2's; what it does not know is named here where Python's own `re` would take it."""
    try:
        import re2  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        import re as re2  # the same for nearly everything that people write
    try:
        re2.compile(pattern)
    except Exception as problem:  # noqa: BLE001 (two libraries, two classes of errors)
        sys.stdout.write(f"The regular expression `{pattern}` is invalid: {problem}.\n")
        return 0
    sys.stdout.write(f"The regular expression `{pattern}` is valid.\n")
    return 0
