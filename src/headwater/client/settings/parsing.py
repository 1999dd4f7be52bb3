"""Settings as people give them, to values that were checked.

A setting comes by Kafka's name in a mapping (`{"linger.ms": 5}`, text or value) or as a keyword argument with
underscores (`linger_ms=5`). A name that the table does not have is an error that says which one may be meant: a
misspelt `acks` would otherwise lose data quietly. Names of Kafka's that have no effect here are in the table and marked
so.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.config.definition import ConfigType, Definition, Value, format_value
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import UserError

Table = Mapping[str, Definition]

_HINT = "docs/CLIENT.md lists the settings"


class Settings:
    """The values by name: given ones, else the defaults. `given` says which were given."""

    def __init__(self, values: dict[str, Any], given: frozenset[str]) -> None:
        self._values = values
        self.given = given

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def number(self, name: str) -> int:
        return int(self._values[name])

    def text(self, name: str) -> str:
        return str(self._values[name])

    def flag(self, name: str) -> bool:
        return bool(self._values[name])

    def items(self) -> list[tuple[str, Any]]:
        return list(self._values.items())


def read_settings(
    table: Table,
    given: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    *,
    old_names: Mapping[str, str] | None = None,
) -> Settings:
    """`old_names` maps names of earlier days to today's, `request.required.acks` to `acks`."""
    by_keyword = {name.replace(".", "_").replace("-", "_"): name for name in table}
    values: dict[str, Any] = {name: row.default for name, row in table.items()}
    named: dict[str, object] = {}
    for name, value in (given or {}).items():
        named[_known(table, (old_names or {}).get(name, name), name, table)] = value
    for keyword, value in keywords.items():
        named[_known(table, by_keyword.get(keyword, keyword), keyword, by_keyword)] = value
    for name, value in named.items():
        values[name] = _checked(table[name], value)
    return Settings(values, frozenset(named))


def _known(table: Table, name: str, said: str, sayable: Mapping[str, object]) -> str:
    if name in table:
        return name
    import difflib  # only for those who misspelt

    close = difflib.get_close_matches(said, list(sayable), 1)
    meant = f"did you mean {close[0]!r}?" if close else "no setting is called so"
    raise UserError(f"There is no setting {said!r}", meant, _HINT)


def _checked(row: Definition, value: object) -> Any:
    """Text is read as in a properties file; values are taken as they are, if they are of the setting's type."""
    if isinstance(value, str):
        text = value
    elif value is None and row.default is None:
        return None
    elif row.type is ConfigType.CLASS or callable(value):
        return value
    elif isinstance(value, list | tuple | set | frozenset):
        if not all(isinstance(entry, str) for entry in value):
            return list(value)  # assignors and the like may be objects
        text = ",".join(value)
    else:
        text = format_value(value if isinstance(value, bool | int | float) else str(value)) or ""
    try:
        return row.parse(text)
    except ConfigValueError as error:
        shown = "its value" if row.is_sensitive else repr(value)
        raise UserError(f"The setting {row.name!r} cannot be {shown}", error.reason, f"It is {row.allowed}") from None


def row(
    name: str,
    type_: ConfigType,
    default: Value | Callable[..., Any],
    doc: str,
    validator: Any = None,
    *,
    used: bool = True,
) -> Definition:
    """A row of a client's table."""
    return Definition(name, type_, default, doc, validator, used=used)  # type: ignore[arg-type]


def table_of(*rows: Definition) -> dict[str, Definition]:
    return {each.name: each for each in rows}
