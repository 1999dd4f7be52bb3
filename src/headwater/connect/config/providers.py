"""Config providers: `${file:/path:key}`, `${dir:/path:name}`, `${env:NAME}` in configs stand for values that lie
elsewhere.

They are set up by the worker's properties alone, each with what it may reach: `allowed.paths` for files and
directories, `allowlist.pattern` for the environment. A config is kept and shown with its references; only what starts a
connector or a task sees the values.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from headwater.base.config.properties import parse_properties
from headwater.base.errors import UserError
from headwater.connect.config.definition import own_config
from headwater.connect.errors import ConfigError

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
_FILE_BYTES_MAX: Final = 1024 * 1024
_CLASSES: Final = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
}


class Provider(Protocol):
    def get(self, path: str, key: str) -> str: ...


class _Paths:
    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        given = [each.strip() for each in settings.get("allowed.paths", "").split(",") if each.strip()]
        if not given:
            raise UserError(
                f"The config provider {name!r} may reach nothing",
                f"config.providers.{name}.param.allowed.paths is not set",
                "Name the directories or files that it may read, with commas between them",
            )
        if any(not os.path.isabs(each) for each in given):
            raise UserError(f"config.providers.{name}.param.allowed.paths has a path that is not absolute")
        self._allowed = [Path(each).resolve() for each in given]

    def checked(self, path: str) -> Path:
        found = Path(path).resolve()
        if not path or not any(found == each or each in found.parents for each in self._allowed):
            raise ConfigError("The path of a config provider is not among its allowed.paths")
        return found


class FileProvider(_Paths):
    def get(self, path: str, key: str) -> str:
        values = parse_properties(_read(self.checked(path)))
        if key not in values:
            raise ConfigError(f"The file of a config provider has no key {key!r}")
        return values[key]


class DirectoryProvider(_Paths):
    def get(self, path: str, key: str) -> str:
        directory = self.checked(path)
        if not key or "/" in key or key in (".", ".."):
            raise ConfigError(f"The directory of a config provider has no file {key!r}")
        return _read(self.checked(str(directory / key)))


class EnvironmentProvider:
    def __init__(self, name: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
        pattern = settings.get("allowlist.pattern")
        if not pattern:
            raise UserError(
                f"The config provider {name!r} may reach nothing",
                f"config.providers.{name}.param.allowlist.pattern is not set",
                "Give a pattern of the variables that it may read",
            )
        from headwater.connect.java_regex import compile_java

        self._allowed = compile_java(pattern)
        self._environment = environment

    def get(self, path: str, key: str) -> str:
        if path or self._allowed.fullmatch(key) is None or key not in self._environment:
            raise ConfigError(f"The environment has no variable {key!r} that a config may refer to")
        return self._environment[key]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"A config provider cannot read its file: {error.strerror}") from None
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError("The file of a config provider is too large")
    return data.decode("utf-8", "replace")


class Providers:
    def __init__(self, worker: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        self._by_name: dict[str, Provider] = {}
        for name in (each.strip() for each in worker.get("config.providers", "").split(",")):
            if name:
                self._by_name[name] = _provider(name, worker, os.environ if environment is None else environment)

    def resolved(self, config: Mapping[str, str], given: set[str] | None = None) -> dict[str, str]:
        """References to providers that do not exist stay as they are, as in Kafka. Raises ConfigError that names the
        property. All that providers gave is added to `given`.
        """
        made: dict[str, str] = {}

        def one(found: re.Match[str]) -> str:
            provider = self._by_name.get(found[1])
            if provider is None:
                return found[0]
            value = provider.get(found[2] or "", found[3])
            if given is not None:
                given.add(value)
            return value

        for name, value in config.items():
            try:
                made[name] = _REFERENCE.sub(one, value)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}", name=name) from None
        return made


def _provider(name: str, worker: Mapping[str, str], environment: Mapping[str, str]) -> Provider:
    given = worker.get(f"config.providers.{name}.class", "").strip()
    settings = own_config(f"config.providers.{name}.param.", worker)
    match _CLASSES.get(given):
        case "file":
            return FileProvider(name, settings)
        case "dir":
            return DirectoryProvider(name, settings)
        case "env":
            return EnvironmentProvider(name, settings, environment)
    raise UserError(
        f"The config provider {name!r} cannot be made",
        f"config.providers.{name}.class is {given!r}",
        f"It is one of {', '.join(list(_CLASSES)[:3])}",
    )
