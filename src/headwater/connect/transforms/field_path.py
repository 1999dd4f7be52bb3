"""A path to a field: its name (V1), or names with dots between them (V2), where backticks take in names that have
dots.
"""

from typing import Any

from headwater.connect.data.schema import Field, Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError
from headwater.connect.transforms.base import require_map, require_struct


def parse_path(path: str, version: str) -> tuple[str, ...]:
    return (path,) if version.upper() == "V1" else tuple(_steps(path))


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _backticked(path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            step, at = path[at:end], end + 1
        steps.append(step)
    if path.endswith(".") or not path:
        steps.append("")
    return steps


def _backticked(path: str, opened: int) -> tuple[str, int]:
    """The name between backticks, and where the next step begins. A backtick ends it before a dot or at the end, unless
    a backslash stands before it; others belong to the name.
    """
    parts: list[str] = []
    start = at = opened + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, opened)
        escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if escaped:
                raise _incomplete(path, opened)
            return "".join([*parts, path[start:at]]), at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            parts.append(path[start : at - 1] + "`")
            start = at = at + 1
        else:
            return "".join([*parts, path[start:at]]), at + 2


def _incomplete(path: str, at: int) -> ConfigError:
    return ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {at} to escape it"
    )


def field_at(schema: Schema, steps: tuple[str, ...]) -> Field | None:
    current = schema
    for step in steps[:-1]:
        field = current.field(step)
        if field is None:
            return None
        current = field.schema
    return current.field(steps[-1])


def value_in_struct(value: Struct, steps: tuple[str, ...], with_default: bool) -> Any:
    current: Struct | None = value
    for step in steps[:-1]:
        assert current is not None
        if current.schema.field(step) is None:
            return None
        found = current.get(step)
        if found is None:
            return None
        current = require_struct(found, "nested field access")
    assert current is not None
    if current.schema.field(steps[-1]) is None:
        return None
    return current.get(steps[-1]) if with_default else current.get_without_default(steps[-1])


def value_in_map(value: dict[str, Any], steps: tuple[str, ...]) -> Any:
    current = value
    for step in steps[:-1]:
        found = current.get(step)
        if found is None:
            return None
        current = require_map(found, "nested field access")
    return current.get(steps[-1])
