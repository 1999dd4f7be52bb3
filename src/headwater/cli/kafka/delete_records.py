"""`kafka-delete-records`: drops the oldest records of partitions, as a JSON file says."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli import json_fields
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, run, run_with

ABOUT: Final = "This tool helps to delete records of the given partitions down to the specified offset."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option(
        "offset-json-file",
        'REQUIRED: The JSON file with offset per partition: {"partitions": [{"topic": "foo", "partition": 1, '
        '"offset": 1}], "version": 1}.',
        "Offset json file path",
    ),
)
_VERSION: Final = 1


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected
    from headwater.cli.kafka.exits import java_text

    options.require("offset-json-file")
    path = options.get("offset-json-file") or ""
    try:
        with open(path, encoding="utf-8") as file:
            wanted = read_offsets(file.read())
    except (OSError, UnicodeDecodeError):
        raise Stop(1, f"Unable to read file {path}") from None
    with connected(options) as admin:
        sys.stdout.write("Executing records delete operation\n")
        outcome = admin.delete_records(wanted)
    sys.stdout.write("Records delete operation completed:\n")
    for partition, answer in outcome.items():
        end = f"error: {java_text(answer)}" if isinstance(answer, KafkaError) else f"low_watermark: {answer}"
        sys.stdout.write(f"partition: {partition}\t{end}\n")
    return 0


def read_offsets(text: str) -> dict[TopicPartition, int]:
    try:
        document: Any = json.loads(text)
    except ValueError:
        raise Stop(1, "The input string is not a valid JSON") from None
    version = document.get("version", _VERSION) if isinstance(document, dict) else _VERSION
    if version != _VERSION:
        raise Stop(1, f"Not supported version field value {version}")
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise Stop(1, "Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for each in document["partitions"]:
        try:
            partition = TopicPartition(json_fields.text(each["topic"]), json_fields.number(each["partition"]))
            offset = json_fields.number(each["offset"], 64)
        except (KeyError, TypeError):
            raise Stop(1, f"A partition needs topic, partition and offset: {json.dumps(each)}") from None
        if partition in offsets:
            twice.append(str(partition))
        offsets[partition] = offset
    if twice:
        raise Stop(1, f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}")
    return offsets
