"""`kafka-log-dirs`: the log directories of brokers and what lies in them, as one line of JSON."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from headwater.base.errors import ErrorCode
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, run, run_with

ABOUT: Final = "This tool helps to query log directory usage on the specified brokers."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("describe", "Describe the specified log directories on the specified brokers."),
    Option(
        "topic-list", 'The list of topics to be queried in the form "topic1,topic2,topic3". All by default.', "topics"
    ),
    Option("broker-list", 'The list of brokers to be queried in the form "0,1,2". All by default.', "brokers"),
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    options.require("bootstrap-server", "describe")  # here, --broker-list means the ids of brokers
    topics = {name for name in (options.get("topic-list") or "").split(",") if name}
    with connected(options) as admin:
        existing = [each.id for each in admin.describe_cluster().brokers]
        brokers = _brokers(options.get("broker-list"), existing)
        sys.stdout.write("Querying brokers for log directories information\n")
        found = admin.describe_log_dirs(brokers)
    sys.stdout.write(f"Received log directory information from brokers {','.join(map(str, brokers))}\n")
    document = {
        "brokers": [
            {"broker": broker, "logDirs": [_directory(each, topics) for each in found if each.broker == broker]}
            for broker in brokers
        ],
        "version": 1,
    }
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    return 0


def _brokers(text: str | None, existing: list[int]) -> list[int]:
    if not text:
        return existing
    try:
        asked = sorted({int(number) for number in text.split(",") if number})
    except ValueError:
        raise Stop(1, f"ERROR: --broker-list is no list of broker ids: {text}") from None
    missing = [each for each in asked if each not in existing]
    if missing:
        raise Stop(
            1,
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, existing))}",
        )
    return asked


def _directory(directory: Any, topics: set[str]) -> dict[str, Any]:
    from headwater.cli.kafka.exits import exception_name

    return {
        "partitions": [
            {
                "partition": f"{each.topic}-{each.partition}",
                "size": each.size_bytes,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in directory.replicas
            if not topics or each.topic in topics
        ],
        "error": None if directory.error == ErrorCode.NONE else exception_name(directory.error),
        "logDir": directory.path,
    }
