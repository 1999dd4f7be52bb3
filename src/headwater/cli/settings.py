"""Which cluster a command talks to, and how: options, environment, profile, properties file, what runs locally.

The first of these that names a bootstrap server wins: `--bootstrap-server`; `bootstrap.servers` in `--command-config`;
`--profile`; $HEADWATER_BOOTSTRAP_SERVER; the current profile of profiles.toml; the broker that `headwater up` started;
localhost:9092.

    current = "local"                       # profiles.toml
    [profiles.local]
    bootstrap_server = "localhost:9092"
    [profiles.production]
    bootstrap_server = "a.example:9092,b.example:9092"
    command_config = "~/production.properties"  # or `keyring = "production"`: an entry of the system's keyring
    schema_registry_url = "https://a.example:8081"

`headwater profile` makes and changes them; `--bootstrap-server` alone is not given the login of a profile, which is
another cluster's.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import click

from headwater.base.errors import UserError
from headwater.cli.paths import default_data_dir, default_profiles_file

BOOTSTRAP_VARIABLE: Final = "HEADWATER_BOOTSTRAP_SERVER"
PROFILE_VARIABLE: Final = "HEADWATER_PROFILE"
_FALLBACK: Final = "localhost:9092"
_NUMBERS: Final = {
    "request.timeout.ms": 30_000,
    "default.api.timeout.ms": 60_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
_KNOWN: Final = {"bootstrap.servers", "client.id", *_NUMBERS}
_SECURITY: Final = ("security.protocol", "ssl.", "sasl.")


class ClientSettings(NamedTuple):
    bootstrap: str
    source: str  # what named it, for errors
    client_id: str
    request_timeout_ms: int
    api_timeout_ms: int
    connect_timeout_ms: int
    security: Mapping[str, str] = MappingProxyType({})  # `security.protocol`, `ssl.*` and `sasl.*`, as they were given


class DoorKind(NamedTuple):
    key: str  # of a profile
    running: str  # of the state of `headwater up`


REGISTRY: Final = DoorKind("schema_registry_url", "registry")
CONNECT: Final = DoorKind("connect_url", "connect")
SQL: Final = DoorKind("sql_url", "sql")


class ConnectOptions(NamedTuple):
    """What was typed."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    profile: str | None = None


def resolve(options: ConnectOptions, environment: Mapping[str, str] = os.environ) -> ClientSettings:
    profile = read_profile(options.profile, environment)
    if options.bootstrap_server and not options.profile:
        profile = {}  # its login is for its own cluster
    config_path = options.command_config or profile.get("command_config")
    in_keyring = profile.get("keyring") if config_path is None else None
    if in_keyring is not None:
        properties = _keyring_properties(in_keyring)
    else:
        properties = _read_properties(config_path) if config_path else {}
    candidates = [
        (options.bootstrap_server, "--bootstrap-server"),
        (
            properties.get("bootstrap.servers") if options.command_config else None,
            f"bootstrap.servers of {config_path}",
        ),
        (profile.get("bootstrap_server") if options.profile else None, f"the profile {options.profile}"),
        (environment.get(BOOTSTRAP_VARIABLE), f"${BOOTSTRAP_VARIABLE}"),
        (profile.get("bootstrap_server"), "the current profile"),
        (properties.get("bootstrap.servers"), f"bootstrap.servers of {config_path or 'the keyring'}"),
    ]
    found = next(((server, source) for server, source in candidates if server), None)
    if found is None:
        server, named_by, own_config = _local(environment)
        found = (server, named_by)
        if own_config is not None and not config_path and in_keyring is None:
            properties = _read_properties(own_config)
    bootstrap, source = found
    return ClientSettings(
        bootstrap=bootstrap,
        source=source,
        client_id=properties.get("client.id", "headwater-cli"),
        request_timeout_ms=_number(properties, "request.timeout.ms"),
        api_timeout_ms=_number(properties, "default.api.timeout.ms"),
        connect_timeout_ms=_number(properties, "socket.connection.setup.timeout.ms"),
        security=_security(properties),
    )


def _local(environment: Mapping[str, str]) -> tuple[str, str, str | None]:
    """The address, what named it, and the properties file that `headwater up --secure` has written for its clients."""
    from headwater.cli.state import read_state

    state = read_state(default_data_dir(environment))
    running = [broker.address for broker in state.brokers if broker.ready] if state else []
    if state is None or not running:
        return _FALLBACK, "the default", None
    return ",".join(running), "what `headwater up` started", state.client_config


def read_profile(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The named profile, else the current one, else nothing."""
    from headwater.cli.profiles import read_profiles

    path = default_profiles_file(environment)
    wanted = name or environment.get(PROFILE_VARIABLE)
    if not path.exists() and wanted:
        raise UserError(
            f"There is no profile {wanted!r}",
            f"{path} does not exist",
            "headwater profile create NAME --bootstrap-server ...",
        )
    known = read_profiles(environment)
    wanted = wanted or known.current
    if wanted is None:
        return {}
    if wanted not in known.named:
        raise UserError(f"There is no profile {wanted!r}", f"{path} has: {', '.join(known.named) or 'none'}")
    return known.named[wanted]


class FoundDoor(NamedTuple):
    url: str
    security: Mapping[str, str]  # the login and the trust that this door may be shown; empty: none is meant for it


def find_door(
    given: str | None,
    variable: str,
    kind: DoorKind,
    default: str,
    options: ConnectOptions,
    environment: Mapping[str, str] = os.environ,
) -> FoundDoor:
    """What was typed, `--profile`, the environment, the current profile, what `headwater up` runs, the default.

    A password goes to the door that its owner has named for it: that of the same profile, that of the same `headwater
    up`, or the one named together with `--profile` or `--command-config`. The default is nobody's: who listens there is
    not known.
    """
    profile = read_profile(options.profile, environment)
    named = profile.get(kind.key)
    url = given or (named if options.profile else None) or environment.get(variable) or named
    if url is not None and (options.profile or options.command_config or _is_same(url, named)):
        return FoundDoor(url, resolve(options, environment).security)
    own = _own_door(kind, environment)
    if own is None or (url is not None and not _is_same(url, own.url)):
        return FoundDoor(url or default, {})
    return FoundDoor(own.url, resolve(options, environment).security) if options.command_config else own


def find_door_beside(
    variable: str, kind: DoorKind, options: ConnectOptions, environment: Mapping[str, str] = os.environ
) -> FoundDoor | None:
    """The door that belongs to the brokers of these options; None if nobody has named one.

    The environment names it for all brokers. A profile has it beside its own brokers, so it counts only where those are
    meant; and that of `headwater up` counts only for brokers that `headwater up` runs: another's would answer for
    others.
    """
    by_profile = options.profile or not (options.bootstrap_server or environment.get(BOOTSTRAP_VARIABLE))
    profile = read_profile(options.profile, environment) if by_profile else {}
    if environment.get(variable) or profile.get(kind.key):
        return find_door(None, variable, kind, "", options, environment)
    settings = resolve(options, environment)
    return _own_door(kind, environment) if _runs_here(settings.bootstrap, environment) else None


def _runs_here(bootstrap: str, environment: Mapping[str, str]) -> bool:
    from headwater.cli.state import read_state

    state = read_state(default_data_dir(environment).absolute())
    running = {_plain_address(broker.address) for broker in state.brokers} if state else set()
    return any(_plain_address(each) in running for each in bootstrap.split(","))


def _plain_address(text: str) -> str:
    host, _, port = text.rpartition("://")[2].strip().rpartition(":")
    return f"{'127.0.0.1' if host in ('localhost', '0.0.0.0', '[::1]', '[::]') else host}:{port}"


def _own_door(kind: DoorKind, environment: Mapping[str, str]) -> FoundDoor | None:
    """Of `headwater up` on this machine, if that server is alive: its port is no other's then."""
    from headwater.cli.state import read_state

    state = read_state(default_data_dir(environment).absolute())
    server = getattr(state, kind.running, None)
    if state is None or server is None or not server.is_alive:
        return None
    properties = _read_properties(state.client_config) if state.client_config else {}
    return FoundDoor(server.url, _security(properties))


def _is_same(url: str, other: str | None) -> bool:
    return other is not None and url.rstrip("/") == other.rstrip("/")


def _security(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name.startswith(_SECURITY)}


def read_command_config(path: str) -> tuple[str, dict[str, str]]:
    """Its text, and the properties in it. Raises UserError for what is not to be read."""
    from headwater.base.config.properties import parse_properties

    what = f"Cannot read the command config {path}"
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        return text, parse_properties(text)
    except UnicodeDecodeError:
        raise UserError(what, "it is not UTF-8 text") from None
    except OSError as error:
        raise UserError(what, error.strerror or str(error)) from None
    except UserError as error:
        raise UserError(what, f"{error.what}: {error.why}", error.hint) from None


def _read_properties(path: str) -> dict[str, str]:
    return _told_of_unknown(read_command_config(path)[1], path)


def _keyring_properties(entry: str) -> dict[str, str]:
    from headwater.base.config.properties import parse_properties
    from headwater.cli import keyrings

    try:
        properties = parse_properties(keyrings.find(entry))
    except ValueError:  # its words may quote the login
        raise UserError(f"The login of the profile {entry!r} in the system's keyring is not understood") from None
    return _told_of_unknown(properties, f"the keyring's {entry}")


def _told_of_unknown(properties: dict[str, str], path: str) -> dict[str, str]:
    for name in sorted(name for name in properties.keys() - _KNOWN if not name.startswith(_SECURITY)):
        click.echo(f"warning: {path}: {name} has no meaning here and is ignored", err=True)
    return properties


def _number(properties: dict[str, str], name: str) -> int:
    text = properties.get(name, str(_NUMBERS[name])).strip()
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise UserError(f"Cannot use {name}={text}", "it is not a number above zero")
    return int(text)
