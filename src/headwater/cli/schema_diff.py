"""Two schemas side by side, field by field: what was added, removed and changed. Pure.

A schema in JSON (Avro, JSON Schema) is a tree whose lists of named things (fields, symbols) are compared by name, so
that moving a field is no change. Protobuf is compared line by line.
"""

import difflib
import json
from typing import Any


def schema_diff(old: str, new: str) -> list[str]:
    """Lines that begin with `+`, `-` or `~`; none if the schemas say the same."""
    try:
        before, after = flat(json.loads(old)), flat(json.loads(new))
    except ValueError:
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
        return [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    found = []
    for path in dict.fromkeys([*before, *after]):
        if path not in before:
            found.append(f"+ {path}: {after[path]}")
        elif path not in after:
            found.append(f"- {path}: {before[path]}")
        elif before[path] != after[path]:
            found.append(f"~ {path}: {before[path]} -> {after[path]}")
    return found


def flat(value: Any, path: str = "") -> dict[str, str]:
    """Every leaf by its path: `fields.age.type` -> `int`. A type that is a name and one that is an object with only
    that are one.
    """
    result: dict[str, str] = {}
    stack: list[tuple[str, Any]] = [(path, value)]
    while stack:
        place, each = stack.pop()
        if isinstance(each, dict) and each:
            if set(each) == {"type"} and isinstance(each["type"], str) and place.endswith("type"):
                result[place] = each["type"]
                continue
            parts = [(str(name), inner) for name, inner in each.items()]
        elif isinstance(each, list) and each and all(isinstance(inner, dict) and "name" in inner for inner in each):
            parts = [(str(inner["name"]), {key: inner[key] for key in inner if key != "name"} or "") for inner in each]
        else:
            result[place or "schema"] = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            continue
        stack += [(f"{place}.{name}" if place else name, inner) for name, inner in reversed(parts)]
    return result
