"""Where `headwater doctor` finds the settings to look at: properties files that were named, and the servers that
`headwater up` has started.

The settings of a server that runs are those of its command line (`broker start --config FILE --set name=value ...`);
a broker is also asked which of them `kafka-configs` has changed since. Files are looked at, never changed.
"""

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.config.properties import parse_properties
from headwater.base.errors import KafkaError, UserError
from headwater.cli.checks import FAIL, OK, WARN, Finding
from headwater.cli.exposure import (
    INLINE_CERTIFICATES,
    FileFacts,
    Settings,
    exposures,
    named_files,
    of_secret_files,
)
from headwater.cli.secure import Secured
from headwater.cli.state import ServerState, UpState, read_state

if TYPE_CHECKING:
    from headwater.client.types import ConfigEntry

_PUBLIC: Final = ("ca.pem",)
_DYNAMIC: Final = ("dynamic-default", "dynamic-broker")  # the latter wins
_PATIENCE_MS: Final = 3_000


class Source(NamedTuple):
    """A server whose settings are in a file, on a command line, or both."""

    name: str
    path: str | None
    sets: Mapping[str, str]
    changed: Mapping[str, str] = MappingProxyType({})  # since it was started
    unasked: str = ""  # why it is not known what was changed


def run_exposure_checks(data_dir: Path, configs: Sequence[str], now: datetime) -> Iterator[Finding]:
    state = read_state(data_dir)
    sources = [Source(Path(each).name, str(Path(each).absolute()), {}) for each in configs]
    sources += running_servers(state) if state is not None else []
    for source in sources:
        try:
            given = read_settings(Path(source.path)) if source.path is not None else {}
        except UserError as problem:
            yield Finding(FAIL, source.name, problem.what, problem.why)
            continue
        server = Settings(source.name, {**given, **source.sets, **source.changed}, source.path)
        yield from exposures(server, look_at(server), now)
        if source.unasked:
            found = f"what kafka-configs has changed since its start is not known: {source.unasked}"
            yield Finding(WARN, source.name, found, "Is it ready? See `headwater status`, and its log")
    secrets = {str(path): FileFacts(mode_of(path)) for path in secret_files(data_dir)}
    findings = list(of_secret_files(secrets))
    yield from findings
    if secrets and not findings:
        yield Finding(OK, "secrets", f"{Secured.of(data_dir).directory} is for its owner alone")
    if not sources:
        yield Finding(OK, "open doors", "nothing runs here; name settings to look at with --config")


def read_settings(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else None) or "it is no properties file in UTF-8"
        raise UserError(f"Cannot read {path}", why) from None


def running_servers(state: UpState) -> list[Source]:
    """Brokers and HTTP doors that are alive, brokers with what was changed since they were started."""
    changes = dynamic_settings(state)
    named: list[tuple[str, ServerState | None]] = [(f"broker {each.id}", each) for each in state.brokers]
    named += [("registry", state.registry), ("SQL server", state.sql), ("Connect worker", state.connect)]
    sources = []
    for name, server in named:
        found = settings_of_command(command_line(server.pid)) if server is not None and server.is_alive else None
        if found is not None:
            sources.append(Source(name, *found, *changes.get(name, ())))
    return sources


def dynamic_settings(state: UpState) -> dict[str, tuple[Mapping[str, str], str]]:
    """By the names of brokers that are alive: what was changed since, or why that is not known."""
    from headwater.cli.connecting import open_admin
    from headwater.cli.settings import ConnectOptions, resolve
    from headwater.client.types import ConfigResource, ResourceType

    brokers = {f"broker {each.id}": each for each in state.brokers if each.is_alive}
    if not brokers:
        return {}
    addresses = ",".join(each.address for each in brokers.values())
    resources = {name: ConfigResource(ResourceType.BROKER, str(each.id)) for name, each in brokers.items()}
    try:
        settings = resolve(ConnectOptions(addresses, state.client_config))._replace(
            connect_timeout_ms=_PATIENCE_MS, request_timeout_ms=_PATIENCE_MS, api_timeout_ms=_PATIENCE_MS
        )
        with open_admin(settings) as admin:
            answers = admin.describe_configs(resources.values())
    except (KafkaError, UserError) as problem:
        return {name: ({}, _reason(problem)) for name in brokers}
    changes: dict[str, tuple[Mapping[str, str], str]] = {}
    for name, resource in resources.items():
        answer = answers[resource]
        changes[name] = ({}, _reason(answer)) if isinstance(answer, KafkaError) else (changed(answer), "")
    return changes


def changed(entries: Iterable["ConfigEntry"]) -> dict[str, str]:
    """What was set while the broker ran, for all brokers or for it alone. Pure. Passwords are not told by a broker."""
    ranked = sorted(
        (each for each in entries if each.source in _DYNAMIC and each.value is not None),
        key=lambda each: _DYNAMIC.index(each.source),
    )
    return {each.name: each.value for each in ranked if each.value is not None}


def _reason(problem: KafkaError | UserError) -> str:
    return problem.what if isinstance(problem, UserError) else str(problem)


def command_line(pid: int) -> list[str]:
    """Empty if the process is gone, or another user's."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return text.split("\0")[:-1]


def settings_of_command(arguments: Sequence[str]) -> tuple[str | None, dict[str, str]] | None:
    """`--config` and the `--set` of a server's command line. Pure. None for a command that has neither."""
    path: str | None = None
    sets: dict[str, str] = {}
    for option, text in pairwise(arguments):
        if option == "--config":
            path = text
        elif option == "--set":
            name, equals, value = text.partition("=")
            if equals:
                sets[name.strip()] = value
    return (path, sets) if path is not None or sets else None


def look_at(server: Settings) -> dict[str, FileFacts]:
    """Of every file that the settings name, and of the file that they come from; certificates in a setting go by its
    name.
    """
    facts: dict[str, FileFacts] = {}
    if server.path is not None:
        facts[server.path] = FileFacts(mode_of(Path(server.path)))
    for setting, path in named_files(server.given).items():
        password = server.given.get(setting.removesuffix("location") + "password")
        facts[path] = _look_into(Path(path), setting, password)
    for setting, text in server.given.items():
        if setting.endswith(INLINE_CERTIFICATES):
            facts[setting] = FileFacts(ends=first_end(text))
    return facts


def _look_into(path: Path, setting: str, password: str | None) -> FileFacts:
    from headwater.base.security.key_stores import read_certificates, read_file

    mode = mode_of(path)
    try:
        text = read_certificates(read_file(str(path), setting), password, str(path))
    except UserError as problem:
        return FileFacts(mode, problem=problem.why or problem.what)
    ends = first_end(text)
    return FileFacts(mode, ends, "" if ends else "to read certificates takes `pip install 'headwater[security]'`")


def first_end(pem: str) -> datetime | None:
    """When the first of the certificates ends; None where nobody can tell: without any, or without `cryptography`."""
    try:
        from cryptography import x509

        found = x509.load_pem_x509_certificates(pem.encode())
    except (ImportError, ValueError):
        return None
    return min(each.not_valid_after_utc for each in found)


def mode_of(path: Path) -> int | None:
    """Permission bits, with those of the directory: what others cannot come to, they cannot read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        is_shut = any(not stat.S_IMODE(each.stat().st_mode) & stat.S_IXOTH for each in path.absolute().parents)
    except OSError:
        return None
    return mode & ~stat.S_IRWXO if is_shut else mode


def secret_files(data_dir: Path) -> list[Path]:
    """Those of `headwater up --secure`, but what is for everybody."""
    directory = Secured.of(data_dir).directory
    try:
        return sorted(path for path in directory.iterdir() if path.is_file() and path.name not in _PUBLIC)
    except OSError:
        return []
