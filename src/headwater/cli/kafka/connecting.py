"""From a script's options to an admin client: `--bootstrap-server`, and the properties of `--command-config` and the
like.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headwater.base.errors import UserError
from headwater.cli.kafka.options import Options, Stop, Usage

if TYPE_CHECKING:
    from headwater.client.admin import Admin


def read_properties(path: str) -> dict[str, str]:
    from headwater.base.config.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise Stop(1, f"{path} ({error.strerror})") from None
    except ValueError as error:
        raise Stop(1, f"{path}: {error}") from None


@contextlib.contextmanager
def connected(options: Options, properties: Mapping[str, str] | None = None) -> "Iterator[Admin]":
    """An admin client, closed at the end. `properties` come over those of the files."""
    from headwater.client.addresses import parse_bootstrap
    from headwater.client.admin import Admin

    given = dict(read_properties(path)) if (path := options.get("command-config")) else {}
    given.update(properties or {})
    try:
        parse_bootstrap(options.bootstrap())
    except UserError as error:
        raise Usage(f"Invalid url in bootstrap.servers: {options.bootstrap()} ({error.why})") from None
    admin = Admin(
        {name: text for name, text in given.items() if name.startswith(("security.protocol", "ssl.", "sasl."))},
        bootstrap_servers=options.bootstrap(),
        client_id=given.get("client.id", "headwater-kafka-tool"),
        request_timeout_ms=_number(given, "request.timeout.ms", 30_000),
        default_api_timeout_ms=_number(given, "default.api.timeout.ms", 60_000),
        socket_connection_setup_timeout_ms=_number(given, "socket.connection.setup.timeout.ms", 10_000),
    )
    with admin:
        yield admin


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default)).strip()
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"Cannot use {name}={text}", "it is not a number")
    return int(text)
