"""Changes of strings, numbers, enumerations and constants, and of every keyword that is a limit. Pure."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema.shapes import Shape


def changes(old: Shape, new: Shape) -> Iterator[tuple[str, str]]:
    """(kind, path) of each change between two shapes of one kind."""
    if old.kind == "string":
        yield from limit(old.node, new.node, "maxLength", "MAX_LENGTH")
        yield from limit(old.node, new.node, "minLength", "MIN_LENGTH")
        yield from _pattern(old.node, new.node)
    elif old.kind == "number":
        if old.integer != new.integer:
            yield ("TYPE_EXTENDED" if old.integer else "TYPE_NARROWED"), ""
        before, after = _bounds(old.node), _bounds(new.node)
        for key, name in (("maximum", "MAXIMUM"), ("minimum", "MINIMUM"), ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"), ("exclusiveMinimum", "EXCLUSIVE_MINIMUM")):  # fmt: skip
            yield from limit(before, after, key, name)
        yield from _multiple(old.node.get("multipleOf"), new.node.get("multipleOf"))
    elif old.kind == "enum":
        yield from _values(
            {compact_json(each) for each in old.node["enum"]}, {compact_json(each) for each in new.node["enum"]}
        )
    elif compact_json(old.node["const"]) != compact_json(new.node["const"]):
        yield "ENUM_ARRAY_CHANGED", "/const"


def limit(old: dict[str, Any], new: dict[str, Any], key: str, name: str) -> Iterator[tuple[str, str]]:
    before, after = old.get(key), new.get(key)
    if before == after:
        return
    if before is None:
        yield f"{name}_ADDED", f"/{key}"
    elif after is None:
        yield f"{name}_REMOVED", f"/{key}"
    else:
        yield f"{name}_{'INCREASED' if after > before else 'DECREASED'}", f"/{key}"


def _pattern(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    before, after = old.get("pattern"), new.get("pattern")
    if before != after:
        yield f"PATTERN_{'ADDED' if before is None else 'REMOVED' if after is None else 'CHANGED'}", "/pattern"


def _bounds(node: dict[str, Any]) -> dict[str, Any]:
    """Draft 4 says `exclusiveMaximum: true` beside `maximum`; later drafts give the number itself."""
    found = {}
    for plain, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if node.get(exclusive) is True:
            found[exclusive] = node.get(plain)
            continue
        found[plain] = node.get(plain)
        if not isinstance(node.get(exclusive), bool):
            found[exclusive] = node.get(exclusive)
    return found


def _multiple(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    if before == after:
        return
    if before is None:
        change = "ADDED"
    elif after is None:
        change = "REMOVED"
    else:  # as they are written: 0.3 is three times 0.1, which no two floats are
        was, now = Fraction(repr(before)), Fraction(repr(after))
        change = "EXPANDED" if now % was == 0 else "REDUCED" if was % now == 0 else "CHANGED"
    yield f"MULTIPLE_OF_{change}", "/multipleOf"


def _values(before: set[str], after: set[str]) -> Iterator[tuple[str, str]]:
    if before != after:
        yield f"ENUM_ARRAY_{'EXTENDED' if before <= after else 'NARROWED' if after <= before else 'CHANGED'}", "/enum"
