"""Profiles: a cluster's address, login and doors under a name, so that commands need not be told each time.

    profiles.toml                 for its owner to read and edit: which is current, addresses, the path of properties
    profiles/<name>.properties    the login, as a client's properties; made here, 0600, in a directory 0700
    the system's keyring          the same, for profiles with `keyring`, which is the entry's name

No secret stands in profiles.toml, and none is ever shown. Files are written beside their place and moved there.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from headwater.base.errors import UserError
from headwater.cli.paths import default_profiles_file

DOORS: Final = ("schema_registry_url", "connect_url", "sql_url")
KEYS: Final = ("bootstrap_server", "command_config", "keyring", *DOORS)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Profiles(NamedTuple):
    current: str | None
    named: dict[str, dict[str, str]]


def read_profiles(environment: Mapping[str, str] = os.environ) -> Profiles:
    """All of profiles.toml; nothing if there is no such file. Raises UserError for what is not understood."""
    path = default_profiles_file(environment)
    if not path.exists():
        return Profiles(None, {})
    document = _read_toml(path)
    named = document.get("profiles", {})
    if not isinstance(named, dict):
        raise UserError(f"Cannot read {path}", "profiles is no table")
    for name, profile in named.items():
        for key, value in profile.items() if isinstance(profile, dict) else [("it", profile)]:
            if key not in KEYS or not isinstance(value, str):
                raise UserError(f"Cannot use the profile {name!r}", f"in {path}, {key} is not understood")
        if "command_config" in profile and "keyring" in profile:
            raise UserError(f"Cannot use the profile {name!r}", f"in {path}, it has both command_config and keyring")
    current = document.get("current")
    return Profiles(current if isinstance(current, str) else None, named)


def write_profiles(profiles: Profiles, environment: Mapping[str, str] = os.environ) -> None:
    lines = [f"current = {_quoted(profiles.current)}"] if profiles.current is not None else []
    for name, profile in sorted(profiles.named.items()):
        lines += [
            "",
            f"[profiles.{_quoted(name)}]",
            *(f"{key} = {_quoted(profile[key])}" for key in KEYS if key in profile),
        ]
    write_private(default_profiles_file(environment), "\n".join(lines).lstrip("\n") + "\n")


def secrets_file(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    return default_profiles_file(environment).parent / "profiles" / f"{name}.properties"


def new_entry(name: str) -> str:
    """Of the system's keyring, which all of a user's configs and profiles share: a name that no other has."""
    return f"{name}-{secrets.token_hex(4)}"


def check_name(name: str) -> str:
    """It becomes a file's name."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name for a profile", "", "Use letters, digits, dots, dashes and underscores")
    return name


def check_url(url: str) -> str:
    """Of a door. A login in it would stand readable in profiles.toml."""
    problem = UserError(f"{url.rpartition('@')[2]!r} is no address of a door", "", "Write it as https://localhost:8081")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises for one that there is not)
    except ValueError:
        raise problem from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise problem
    if parts.username or parts.password:
        raise UserError(
            "The address of a door has a login in it",
            "profiles.toml holds no secrets",
            "Leave it out: the profile's own login is sent to its doors",
        )
    return url.rstrip("/")


def write_private(path: Path, text: str) -> None:
    """For its owner alone from the first byte on, and there as a whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = path.with_name(path.name + ".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError as problem:
        raise UserError(f"Cannot write {path}", problem.strerror or str(problem)) from None


def properties_text(settings: Mapping[str, str]) -> str:
    """As Java reads it: a backslash stands for itself only behind another, and a line ends the value."""
    for name, text in settings.items():
        if "\n" in text or "\r" in text:
            raise UserError(f"{name} cannot have a line end in it")
    return "".join(f"{name}={text.replace(chr(92), chr(92) * 2)}\n" for name, text in settings.items())


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    if any(ord(each) < 32 or ord(each) == 127 for each in text):
        raise UserError("A profile cannot hold control characters")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {path}", str(error)) from None
