"""What the options of the source and the sink share: `kafka.*`, what of it each client takes, and what is said about
wrong values.

Pure. A producer's settings mean nothing to the clients that only ask beside it: those take what all clients share.
"""

from collections.abc import Mapping
from typing import Final

from headwater.base.errors import UserError

KAFKA: Final = "kafka."
_TAKEN: Final = ("kafka.bootstrap.servers", "kafka.group.id", "kafka.isolation.level")


def bootstrap_servers(given: Mapping[str, str]) -> str:
    servers = given.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise UserError(
            "No bootstrap server is given",
            "the option kafka.bootstrap.servers is missing",
            'Add .option("kafka.bootstrap.servers", "localhost:9092")',
        )
    return servers


def client_settings(given: Mapping[str, str]) -> dict[str, str]:
    """What is given for the client, without the prefix; what the source and the sink decide themselves is not in it."""
    return {
        name.removeprefix(KAFKA): text for name, text in given.items() if name.startswith(KAFKA) and name not in _TAKEN
    }


def shared_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Those that every client takes."""
    from headwater.client.settings.common import COMMON

    return {name: text for name, text in client.items() if name in COMMON}


def check_consumer(client: Mapping[str, str]) -> None:
    """Raises what a consumer would, on the driver and not in every task."""
    from headwater.client.consumer.consumer_settings import consumer_settings
    from headwater.client.settings.common import session_settings

    known = consumer_settings(client, {})
    session_settings(known.raw, known.api_timeout_ms)


def check_producer(client: Mapping[str, str]) -> None:
    from headwater.client.settings.common import session_settings
    from headwater.client.settings.producer import read_producer_settings

    known, chosen = read_producer_settings(client, {})
    session_settings(known, int(chosen.max_block * 1000))


def bad_value(option: str, text: str, why: str, hint: str = "") -> UserError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return UserError(f"The option {option} cannot be {shown!r}", why, hint)
