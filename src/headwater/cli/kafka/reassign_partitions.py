"""`kafka-reassign-partitions`: moves partitions between brokers, as JSON files say, and tells how far they are."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with
from headwater.cli.reassignments import ReassignmentError

if TYPE_CHECKING:
    from headwater.client.admin import Admin

ABOUT: Final = "This tool helps to move topic partitions between replicas."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("bootstrap-controller", "Not here: the brokers are asked.", "controller"),
    Option("verify", "Verify if the reassignment completed; if it has, throttles are removed."),
    Option("generate", "Generate a candidate partition reassignment configuration. It is not executed."),
    Option("execute", "Kick off the reassignment as specified by the --reassignment-json-file option."),
    Option("cancel", "Cancel an active reassignment."),
    Option("list", "List all active partition reassignments."),
    Option(
        "reassignment-json-file",
        'The JSON file with the moves: {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1,2,3], '
        '"log_dirs": ["dir1","dir2","dir3"]}], "version": 1}. "log_dirs" may be left out; "any" stands for any.',
        "manual assignment json file path",
    ),
    Option(
        "topics-to-move-json-file",
        'The JSON file with the topics for --generate: {"topics": [{"topic": "foo"}], "version": 1}.',
        "topics to reassign json file path",
    ),
    Option("broker-list", 'The brokers to move to with --generate, in the form "0,1,2".', "brokerlist"),
    Option("disable-rack-aware", "Disable rack aware replica assignment."),
    Option("throttle", "The movement between brokers will be throttled to this value (bytes/sec).", "throttle"),
    Option(
        "replica-alter-log-dirs-throttle",
        "The movement between log directories of a broker will be throttled to this value (bytes/sec).",
        "replicaAlterLogDirsThrottle",
    ),
    Option("timeout", "The maximum time in ms to wait for moves between log directories to begin.", "timeout"),
    Option("additional", "Execute this reassignment in addition to any other ongoing ones."),
    Option("preserve-throttles", "Do not modify broker or topic throttles."),
)
_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_FILE: Final = "reassignment-json-file"
_REQUIRED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": (_FILE,),
    "verify": (_FILE,),
    "cancel": (_FILE,),
    "list": (),
}
_EVERYWHERE: Final = ("bootstrap-server", "command-config", "zookeeper")
_ALSO: Final = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected
    from headwater.cli.kafka.exits import told_text
    from headwater.client.errors import BootstrapFailed

    action = checked_action(options)
    texts = {name: _read(options.get(name) or "") for name in _REQUIRED[action] if name.endswith("json-file")}
    try:
        with connected(options) as admin:
            _DO[action](admin, options, next(iter(texts.values()), ""))
    except BootstrapFailed:
        raise
    except (ReassignmentError, KafkaError) as error:
        why = told_text(error) if isinstance(error, KafkaError) else str(error)
        sys.stdout.write(f"Error: {why}\n")
        return 1
    return 0


def checked_action(options: Options) -> str:
    """The one action that was asked for, with all that it needs and nothing that it does not take."""
    actions = [name for name in _ACTIONS if name in options]
    if len(actions) != 1:
        names = ", ".join(f"--{name}" for name in _ACTIONS)
        raise Usage(f"Command must include exactly one action: {names}")
    if "bootstrap-controller" in options:
        raise Stop(1, "Error: The --bootstrap-controller option is not supported with these action.")
    if "bootstrap-server" not in options and "zookeeper" in options:
        options.look_into_zookeeper()  # here --broker-list names no servers
    if "bootstrap-server" not in options:
        raise Usage("Please specify either --bootstrap-server or --bootstrap-controller")
    action = actions[0]
    options.require(*_REQUIRED[action])
    allowed = {action, *_REQUIRED[action], *_EVERYWHERE, *_ALSO[action]}
    for option in OPTIONS:
        if option.name in options and option.name not in allowed:
            raise Usage(f'Option "[{option.name}]" can\'t be used with action "[{action}]"')
    return action


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as problem:
        sys.stdout.write(f"Error: Unable to read file {path}\n")
        raise Stop(1) from problem


def _list(admin: "Admin", _options: Options, _text: str) -> None:
    moves = admin.list_partition_reassignments()
    if not moves:
        sys.stdout.write("No partition reassignments found.\n")
        return
    sys.stdout.write("Current partition reassignments:\n")
    for partition in sorted(moves):
        move = moves[partition]
        adding = f" adding: {_comma(move.adding)}." if move.adding else ""
        removing = f" removing: {_comma(move.removing)}." if move.removing else ""
        sys.stdout.write(f"{partition}: replicas: {_comma(move.replicas)}.{adding}{removing}\n")


def _generate(admin: "Admin", options: Options, text: str) -> None:
    import random

    from headwater.base.ids import TopicPartition
    from headwater.cli.kafka.reassigning import assigned
    from headwater.cli.kafka.replica_moves import directories
    from headwater.cli.placements import spread
    from headwater.cli.reassignments import read_brokers, read_topics, to_json

    brokers = read_brokers(options.get("broker-list") or "")
    current = assigned(admin, read_topics(text))
    known = {each.id: each.rack for each in admin.describe_cluster().brokers if each.id in brokers}
    racks = dict.fromkeys(known) if "disable-rack-aware" in options else known
    if len({rack is None for rack in racks.values()}) > 1:
        raise ReassignmentError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in sorted({each.topic for each in current}):
        own = [each for each in current if each.topic == topic]
        replicas = len(current[own[0]])
        if replicas > len(racks):
            raise ReassignmentError(f"Replication factor: {replicas} larger than available brokers: {len(racks)}.")
        start, shift = random.randrange(len(racks)), random.randrange(len(racks))
        for index, chosen in enumerate(spread(racks, len(own), replicas, start=start, shift=shift)):
            proposed[TopicPartition(topic, index)] = chosen
    sys.stdout.write(f"Current partition replica assignment\n{to_json(current, directories(admin, current))}\n\n")
    sys.stdout.write(f"Proposed partition reassignment configuration\n{to_json(proposed)}\n")


def _execute(admin: "Admin", options: Options, text: str) -> None:
    from headwater.cli.kafka.reassigning import execute

    execute(
        admin,
        text,
        additional="additional" in options,
        rate_bytes=options.number("throttle"),
        directory_rate_bytes=options.number("replica-alter-log-dirs-throttle"),
        timeout_ms=options.number("timeout"),
    )


def _verify(admin: "Admin", options: Options, text: str) -> None:
    from headwater.cli.kafka.reassigning import verify

    verify(admin, text, keep_throttles="preserve-throttles" in options)


def _cancel(admin: "Admin", options: Options, text: str) -> None:
    from headwater.cli.kafka.reassigning import cancel

    cancel(admin, text, keep_throttles="preserve-throttles" in options, timeout_ms=options.number("timeout"))


def _comma(items: Sequence[int]) -> str:
    return ",".join(map(str, items))


_DO: Final[dict[str, "Callable[[Admin, Options, str], None]"]] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
}
