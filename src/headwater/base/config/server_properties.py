"""The properties of servers beside the broker (registry, SQL): a file and what the command line sets, read by a table
of definitions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.base.config.definition import Definition
from headwater.base.config.properties import parse_properties
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import UserError
from headwater.base.redaction import assignments


def given_properties(text: str | None, overrides: Sequence[str]) -> dict[str, str]:
    """Those of the file, if there is one, and over them each `name=value`. Raises UserError."""
    given = parse_properties(text) if text is not None else {}
    settings, problem = assignments(overrides)
    if problem:
        raise UserError("Cannot read a setting", problem, "Write it as --set name=value")
    return {**given, **settings}


def read_properties(
    table: Mapping[str, Definition],
    given: Mapping[str, str],
    server: str,
    is_known_elsewhere: Callable[[str], bool] = lambda _name: False,
) -> tuple[dict[str, Any], list[str]]:
    """Every value of the table, and warnings about names that have no effect. Raises UserError, which shows no
    password.
    """
    values: dict[str, Any] = {name: row.default for name, row in table.items()}
    warnings = []
    for name, text in given.items():
        row = table.get(name)
        if row is None and is_known_elsewhere(name):
            continue
        if row is None:
            warnings.append(f"{name} has no effect: {server} does not know it")
            continue
        try:
            values[name] = row.parse(text)
        except ConfigValueError as problem:
            shown = "its value" if row.is_sensitive else repr(text)
            raise UserError(f"{name} cannot be {shown}", problem.reason, f"It is {row.allowed}") from None
    return values, warnings
