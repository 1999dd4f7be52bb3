"""What must not be seen: values of properties that are secret by their type or their name, passwords in addresses, and
what providers gave.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.config.definition import ConfigType
from headwater.connect.config.definition import HIDDEN, ConfigDef

_SECRET_NAME: Final = re.compile(
    r"password|passwd|(?:^|[._])pwd(?:$|[._])|secret|token|(?:access|account|api)[._]?key|jaas\.config|credential(?!s\.source)|user\.info|private\.?key|passphrase",
    re.IGNORECASE,
)
_PASSWORD_IN_ADDRESS: Final = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")
_SECRET_IN_QUERY: Final = re.compile(
    r"[?&;][^=?&;\s]*(?:password|passwd|pwd|secret|token|passphrase|authMechanismProperties|(?:access|account|api)[._]?key)[^=?&;\s]*=([^&;\s]+)", re.IGNORECASE
)  # fmt: skip
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_LENGTH_MIN: Final = 3  # shorter ones would hide half of every text


def is_secret(name: str, definition: ConfigDef | None = None) -> bool:
    if definition is not None and name in definition:
        return definition[name].type is ConfigType.PASSWORD or bool(_SECRET_NAME.search(name))
    return bool(_SECRET_NAME.search(name))


def shown(config: Mapping[str, str], definition: ConfigDef | None = None) -> dict[str, str]:
    """A config for people's eyes. A reference to a provider says where a secret is, and is shown."""
    return {
        name: HIDDEN if value and not _REFERENCE.fullmatch(value) and _is_hidden(name, value, definition) else value
        for name, value in config.items()
    }


def _is_hidden(name: str, value: str, definition: ConfigDef | None) -> bool:
    return is_secret(name, definition) or any(secrets_in_addresses(value))


def secrets_in_addresses(value: str) -> list[str]:
    """Passwords before a host, and in what follows a question mark or semicolon, as JDBC has them."""
    return [found for pattern in (_PASSWORD_IN_ADDRESS, _SECRET_IN_QUERY) for found in pattern.findall(value)]


def kept(given: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """A config that was shown, changed and given back: what was hidden is as it was."""
    return {name: before.get(name, value) if value == HIDDEN else value for name, value in given.items()}


def redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LENGTH_MIN:
            text = text.replace(secret, HIDDEN)
    return text


def forms_of(values: Iterable[str]) -> set[str]:
    """What texts may show of values: the whole, without the blanks around it, quoted by Python, and what commas
    divide.
    """
    made: set[str] = set()
    for value in values:
        made |= {value, value.strip(), repr(value)[1:-1], *(each.strip() for each in value.split(","))}
    return made


def secrets_in(config: Mapping[str, str], resolved: Mapping[str, str], definition: ConfigDef | None = None) -> set[str]:
    """The values to hide in errors: secret ones, and all that a provider filled in."""
    whole = {
        value
        for name, value in resolved.items()
        if value and (is_secret(name, definition) or config.get(name) != value)
    }
    return whole | {found for value in resolved.values() if value for found in secrets_in_addresses(value)}
