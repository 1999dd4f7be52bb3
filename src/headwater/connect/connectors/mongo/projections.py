"""Which fields of a document a list names, as MongoDB's connector reads it: `a.b` is a field within one, `*` stands for
one name, `**` for all that is there, and `pre*` for the names that begin so. Pure; documents are not changed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

ALLOWING: Final = ("allowlist", "whitelist")
BLOCKING: Final = ("blocklist", "blacklist")


def projected(document: Mapping[str, Any], kind: str, names: Iterable[str]) -> dict[str, Any]:
    if kind not in ALLOWING:
        made = dict(document)
        for name in names:
            made = _without(made, name.split("."))
        return made
    paths = [name.split(".") for name in names]
    # The fields on the way to one that is named stay, too.
    wanted = {".".join(path[:end]) for path in paths for end in range(1, len(path) + 1)}
    beginnings = tuple(name[:-1] for name in wanted if "." not in name and name != "*" and name.endswith("*"))
    return _only(document, wanted, beginnings, "")


def _only(document: Mapping[str, Any], wanted: Collection[str], beginnings: tuple[str, ...], prefix: str) -> dict[str, Any]:  # fmt: skip
    if "**" in wanted:
        return dict(document)
    made = {}
    for name, value in document.items():
        key = f"{prefix}{name}"
        if not (key in wanted or key.startswith(beginnings) or any(_matches(each, key) for each in wanted)):
            continue
        if f"{key}.**" not in wanted:
            value = _within(value, lambda each, key=key: _only(each, wanted, beginnings, f"{key}."))
        made[name] = value
    return made


def _matches(pattern: str, key: str) -> bool:
    parts, names = pattern.split("."), key.split(".")
    return len(parts) == len(names) and all(part in ("*", name) for part, name in zip(parts, names, strict=True))


def _without(document: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    first, *rest = path
    if first == "**":
        return {}
    if first == "*":
        kept = {name: value for name, value in document.items() if isinstance(value, Mapping)}
        return {name: _without(value, rest) for name, value in kept.items()} if rest else kept
    if not rest:
        if first.endswith("*"):
            return {name: value for name, value in document.items() if not name.startswith(first[:-1])}
        return {name: value for name, value in document.items() if name != first}
    return {
        name: _within(value, lambda each: _without(each, rest)) if name == first else value
        for name, value in document.items()
    }


def _within(value: Any, change: Any) -> Any:
    """Of a field that is a document, or has some in a list."""
    if isinstance(value, Mapping):
        return change(value)
    if isinstance(value, list):
        return [change(each) if isinstance(each, Mapping) else each for each in value]
    return value


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields within fields under their paths, as a filter finds them. A document without fields is a value: a filter
    without it would find any document.
    """
    made: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            made |= flattened(value, f"{prefix}{name}.")
        else:
            made[prefix + name] = value
    return made
