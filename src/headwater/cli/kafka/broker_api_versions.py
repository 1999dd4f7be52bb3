"""`kafka-broker-api-versions`: the APIs of every broker, and the version of each that this client would use."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Options, run, run_with

if TYPE_CHECKING:
    from headwater.client.negotiation import VersionRange

ABOUT: Final = "This tool helps to retrieve broker version information."
OPTIONS: Final = (BOOTSTRAP, COMMAND_CONFIG)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    with connected(options) as admin:
        for broker, offered in admin.describe_api_versions().items():
            head = f"{broker.host}:{broker.port} (id: {broker.id} rack: {broker.rack or 'null'} isFenced: false) -> "
            if isinstance(offered, KafkaError):
                sys.stdout.write(f"{head}ERROR: {offered.message or offered.code.name}\n")
            else:
                sys.stdout.write(f"{head}(\n\t" + ",\n\t".join(_lines(offered)) + "\n)\n")
    return 0


def _lines(versions: "dict[int, VersionRange]") -> list[str]:
    """What the broker offers, then what only we know, as Kafka's tool lists them."""
    from headwater.wire.api import API_NAMES
    from headwater.wire.registry import request_class

    lines = []
    for key, offered in sorted(versions.items()):
        name = f"{API_NAMES.get(key, 'UNKNOWN')}({key})"
        spoken = f"{offered.lowest}" if offered.lowest == offered.highest else f"{offered.lowest} to {offered.highest}"
        try:
            lowest, highest = request_class(key).VERSIONS
        except KafkaError:  # an API that this client has no messages for
            lines.append(f"{name}: {spoken} [unusable: unknown to this client]")
            continue
        usable = min(highest, offered.highest)
        fits = usable >= max(lowest, offered.lowest)
        lines.append(f"{name}: {spoken} [usable: {usable}]" if fits else f"{name}: {spoken} [unusable: node too new]")
    return lines
