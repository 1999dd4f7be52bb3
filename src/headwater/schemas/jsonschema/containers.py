"""Changes of objects and arrays. Pure.

What may stand beside the named properties decides. An object is open if anything may (no patternProperties,
additionalProperties absent or true), closed if nothing may, and partially open if patterns or a schema say what. The
same holds for the items of a list.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import re2

from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema.changes import Change, below
from headwater.schemas.jsonschema.scalars import limit

if TYPE_CHECKING:
    from headwater.schemas.jsonschema.compatibility import Comparison


def object_changes(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    found = [Change(kind, path) for kind, path in _required(comparison, old, new)]
    for key, name in (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")):
        found += [Change(kind, path) for kind, path in limit(old, new, key, name)]
    found += _beside(comparison, old, new, "additionalProperties", "ADDITIONAL_PROPERTIES")
    found += _beside(comparison, old, new, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
    found += _dependencies(comparison, old, new)
    before, after = old.get("properties", {}), new.get("properties", {})
    comparison.budget.spend(5 + len(before) + len(after))  # an object is much more work than a number
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after:
            found += below(f"/properties/{name}", comparison.compare(before[name], after[name]), comparison.budget)
        elif name in before:
            found += below(
                f"/properties/{name}", _property_removed(comparison, new, name, before[name]), comparison.budget
            )
        else:
            found += below(
                f"/properties/{name}", _property_added(comparison, old, new, name, after[name]), comparison.budget
            )
    return found


def _required(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    before, after = _names(old), _names(new)
    known = old.get("properties", {}).keys() & new.get("properties", {}).keys()
    for name in sorted(known & (before ^ after)):
        if name in before:
            yield "REQUIRED_ATTRIBUTE_REMOVED", f"/required/{name}"
        else:
            with_default = _has_default(comparison, new["properties"][name])
            yield f"REQUIRED_ATTRIBUTE_{'WITH_DEFAULT_' if with_default else ''}ADDED", f"/required/{name}"


def _names(node: dict[str, Any]) -> set[str]:
    required = node.get("required")
    return set(required) if isinstance(required, list) else set()


def _has_default(comparison: "Comparison", node: Any) -> bool:
    followed = comparison.new.documents.follow(node)
    return any(isinstance(each, dict) and "default" in each for each in (node, followed))


def _beside(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any], key: str, name: str) -> list[Change]:
    """What may stand beside what is named: anything (True), nothing (False), or what a schema takes."""
    before, after = _rest(old, key), _rest(new, key)
    if isinstance(before, dict) and isinstance(after, dict):
        return below(f"/{key}", comparison.compare(before, after), comparison.budget)
    if before == after:
        return []
    change = (
        "ADDED" if before is False else "REMOVED" if after is False else "EXTENDED" if after is True else "NARROWED"
    )
    return [Change(f"{name}_{change}", f"/{key}")]


def _rest(node: dict[str, Any], key: str) -> Any:
    """An empty schema is `true`."""
    return node.get(key, True) or (node.get(key) == {} and not isinstance(node.get(key), bool))


def _dependencies(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    found: list[Change] = []
    before = old.get("dependencies", {}) | old.get("dependentRequired", {}) | _prefixed(old)
    after = new.get("dependencies", {}) | new.get("dependentRequired", {}) | _prefixed(new)
    for name in sorted(before.keys() | after.keys()):
        path = f"/dependencies/{name}"
        was, now = before.get(name), after.get(name)
        if isinstance(was, list) and isinstance(now, list):
            if set(was) != set(now):
                change = "EXTENDED" if set(was) < set(now) else "NARROWED" if set(now) < set(was) else "CHANGED"
                found.append(Change(f"DEPENDENCY_ARRAY_{change}", path))
        elif was is not None and now is not None and not isinstance(was, list) and not isinstance(now, list):
            found += below(path, comparison.compare(was, now), comparison.budget)
        else:
            found += [Change(f"DEPENDENCY_{_form(was)}_REMOVED", path)] if was is not None else []
            found += [Change(f"DEPENDENCY_{_form(now)}_ADDED", path)] if now is not None else []
    return found


def _prefixed(node: dict[str, Any]) -> dict[str, Any]:
    """Newer drafts allow both kinds for one property: schemas go under a name that no property list has."""
    return {f"{name} (schema)": each for name, each in node.get("dependentSchemas", {}).items()}


def _form(dependency: Any) -> str:
    return "ARRAY" if isinstance(dependency, list) else "SCHEMA"


def _covering(comparison: "Comparison", node: dict[str, Any], name: str) -> Any:
    """The schema that takes the property `name`, though it is not named: by a pattern, or by the rest. Where there are
    patterns, what matches none of them counts as not allowed unless a schema says what the rest is.
    """
    for pattern, inner in node.get("patternProperties", {}).items():
        comparison.budget.spend()
        if pattern not in comparison.expressions:
            comparison.budget.spend(50)
            comparison.expressions[pattern] = _compiled(pattern)
        expression = comparison.expressions[pattern]
        if expression is not None and expression.search(name) is not None:
            return inner
    rest = _rest(node, "additionalProperties" if "additionalProperties" in node else "unevaluatedProperties")
    return False if rest is True and node.get("patternProperties") else rest


def _compiled(pattern: str) -> Any:
    """In linear time: Python's own expressions could be made to run for ever. What RE2 does not know matches
    nothing.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _property_removed(comparison: "Comparison", new: dict[str, Any], name: str, before: Any) -> list[Change]:
    covering = _covering(comparison, new, name)
    if covering is True:
        return [Change("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", "")]
    if covering is False:
        never = comparison.old.of(before).kind == "never"
        return [Change(f"PROPERTY_{'WITH_FALSE_' if never else ''}REMOVED_FROM_CLOSED_CONTENT_MODEL", "")]
    found = comparison.compare(before, covering)
    return [
        *found,
        Change(
            f"PROPERTY_REMOVED_{'IS' if comparison.fits(found) else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ""
        ),
    ]


def _property_added(
    comparison: "Comparison", old: dict[str, Any], new: dict[str, Any], name: str, after: Any
) -> list[Change]:
    covering = _covering(comparison, old, name)
    required = name in _names(new)
    form = "OPTIONAL" if not required else "REQUIRED"
    default = "_WITH_DEFAULT" if required and _has_default(comparison, after) else ""
    if covering is True:
        if comparison.new.of(after).kind == "any":
            return [Change("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "")]
        return [Change(f"{form}_PROPERTY{default}_ADDED_TO_OPEN_CONTENT_MODEL", "")]
    found: list[Change] = []
    if covering is not False:
        found = comparison.compare(covering, after)
        found = [
            *found,
            Change(
                f"PROPERTY_ADDED_{'IS' if comparison.fits(found) else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                "",
            ),
        ]
    return [*found, Change(f"{form}_PROPERTY{default}_ADDED_TO_UNOPEN_CONTENT_MODEL", "")]


def array_changes(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    found: list[Change] = []
    for key, name in (("maxItems", "MAX_ITEMS"), ("minItems", "MIN_ITEMS"), ("maxContains", "MAX_CONTAINS"), ("minContains", "MIN_CONTAINS")):  # fmt: skip
        found += [Change(kind, path) for kind, path in limit(old, new, key, name)]
    if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
        found.append(Change(f"UNIQUE_ITEMS_{'ADDED' if new.get('uniqueItems') else 'REMOVED'}", "/uniqueItems"))
    if compact_json(old.get("contains")) != compact_json(new.get("contains")):
        found += _optional(comparison, old, new, "contains")
    before, after = _Items(old), _Items(new)
    if not before.named and not after.named and "additionalItems" not in old | new:
        found += _optional(comparison, old, new, "items")
        return [*found, *_beside(comparison, old, new, "unevaluatedItems", "UNEVALUATED_ITEMS")]
    found += _beside(
        comparison, {after.key: before.additional}, {after.key: after.additional}, after.key, "ADDITIONAL_ITEMS"
    )
    for index in range(max(len(before.named), len(after.named))):
        path = f"/{after.named_key}/{index}"
        if index < len(before.named) and index < len(after.named):
            found += below(path, comparison.compare(before.named[index], after.named[index]), comparison.budget)
        elif index < len(before.named):
            found += below(path, _item_removed(comparison, before.named[index], after.rest), comparison.budget)
        elif before.rest is True:
            empty = "_WITH_EMPTY_SCHEMA" if comparison.new.of(after.named[index]).kind == "any" else ""
            found.append(Change(f"ITEM{empty}_ADDED_TO_OPEN_CONTENT_MODEL", path))
        elif before.rest is False:
            found.append(Change("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path))
        else:
            inner = comparison.compare(before.rest, after.named[index])
            covered = "IS" if comparison.fits(inner) else "NOT"
            found += below(
                path,
                [*inner, Change(f"ITEM_ADDED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "")],
                comparison.budget,
            )
    return [*found, *_beside(comparison, old, new, "unevaluatedItems", "UNEVALUATED_ITEMS")]


class _Items:
    """The items of a list that have schemas of their own, and what the rest is: in the words of either draft."""

    def __init__(self, node: dict[str, Any]) -> None:
        items = node.get("items")
        self.named: list[Any] = []
        if isinstance(items, list):
            self.named, self.key, self.named_key = items, "additionalItems", "items"
        elif "prefixItems" in node:
            self.named, self.key, self.named_key = node["prefixItems"], "items", "prefixItems"
        else:
            self.key, self.named_key = ("items" if "items" in node else "additionalItems"), "items"
        self.additional = _rest(node, self.key)
        self.rest = self.additional if self.key in node else _rest(node, "unevaluatedItems")


def _item_removed(comparison: "Comparison", before: Any, rest: Any) -> list[Change]:
    if rest is True:
        return [Change("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", "")]
    if rest is False:
        never = comparison.old.of(before).kind == "never"
        return [Change(f"ITEM_{'WITH_FALSE_' if never else ''}REMOVED_FROM_CLOSED_CONTENT_MODEL", "")]
    found = comparison.compare(before, rest)
    return [
        *found,
        Change(f"ITEM_REMOVED_{'IS' if comparison.fits(found) else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ""),
    ]


def _optional(comparison: "Comparison", old: dict[str, Any], new: dict[str, Any], key: str) -> list[Change]:
    if key in old and key in new:
        return below(f"/{key}", comparison.compare(old[key], new[key]), comparison.budget)
    if key in new and comparison.new.of(new[key]).kind != "any":
        return [Change("SCHEMA_ADDED", f"/{key}")]
    return [Change("SCHEMA_REMOVED", f"/{key}")] if key in old else []
