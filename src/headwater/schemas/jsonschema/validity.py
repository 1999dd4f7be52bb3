"""Whether a document is a JSON Schema at all: keywords have the forms that drafts 4 to 2020-12 give them. Pure."""

import math
from typing import Any, Final

from headwater.schemas.jsonschema.documents import Documents, reference_of, subschemas
from headwater.schemas.model import SchemaError

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_COUNTS: Final = (
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "maxContains",
    "minContains",
)
_NUMBERS: Final = ("maximum", "minimum", "multipleOf")
_BOUNDS: Final = ("exclusiveMaximum", "exclusiveMinimum")
_TEXTS: Final = ("$id", "$schema", "$ref", "$anchor", "title", "description", "format", "pattern")
_OBJECTS: Final = (
    "properties",
    "patternProperties",
    "definitions",
    "$defs",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
)
_SCHEMAS: Final = ("additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_PATH_LENGTH_MAX: Final = 500


def check_document(document: Any, documents: Documents) -> None:
    """Raise SchemaError where a schema, or what it refers to, is malformed or refers to nothing. The walk has a list of
    its own: no recursion.
    """
    pending = [(document, "")]
    referred: list[tuple[Any, str]] = []  # later: most of it is met in the document, and has a better path there
    seen: set[int] = set()
    while pending or referred:
        node, path = (pending or referred).pop()
        if isinstance(node, bool) or id(node) in seen:
            continue
        seen.add(id(node))
        if not isinstance(node, dict):
            raise _error(path, f"a schema is an object, true or false, not {str(node)[:100]!r}")
        _check_keywords(node, path)
        reference = reference_of(node)
        if reference is not None:
            documents.follow(node)
            referred.append((documents.resolve(node, reference), _below(path, "$ref")))
        pending += [(inner, _below(path, place)) for place, inner in subschemas(node)]


def _below(path: str, place: str) -> str:
    """The end of a long path only: each schema within has its own, and names may be as long as the text."""
    path = f"{path}/{place}"
    return path if len(path) <= _PATH_LENGTH_MAX else f"/...{path[-_PATH_LENGTH_MAX:]}"


def _check_keywords(node: dict[str, Any], path: str) -> None:
    _check_type(node, path)
    for key in _COUNTS:
        if key in node and not (_is_number(node[key]) and node[key] >= 0 and node[key] == int(node[key])):
            raise _error(path, f"{key} is a whole number from 0, not {str(node[key])[:100]!r}")
    for key in _NUMBERS:
        if key in node and not _is_number(node[key]):
            raise _error(path, f"{key} is a number, not {str(node[key])[:100]!r}")
    if node.get("multipleOf", 1) <= 0:
        raise _error(path, "multipleOf is greater than 0")
    for key in _BOUNDS:
        if key in node and not (isinstance(node[key], bool) or _is_number(node[key])):
            raise _error(path, f"{key} is a number (in draft 4 true or false), not {str(node[key])[:100]!r}")
    for key in _TEXTS:
        if key in node and not isinstance(node[key], str):
            raise _error(path, f"{key} is text, not {str(node[key])[:100]!r}")
    for key in _OBJECTS:
        if key in node and not isinstance(node[key], dict):
            raise _error(path, f"{key} is an object, not {str(node[key])[:100]!r}")
    _check_schemas(node, path)
    _check_lists(node, path)


def _check_type(node: dict[str, Any], path: str) -> None:
    types = node.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if name not in TYPES:
            raise _error(path, f"type is one of {', '.join(TYPES)}, not {str(name)[:100]!r}")


def _check_schemas(node: dict[str, Any], path: str) -> None:
    for key in _SCHEMAS:
        if key in node and not isinstance(node[key], dict | bool):
            raise _error(path, f"{key} is a schema, not {str(node[key])[:100]!r}")
    if "items" in node and not isinstance(node["items"], dict | bool | list):
        raise _error(path, f"items is a schema or a list of schemas, not {str(node['items'])[:100]!r}")
    if "prefixItems" in node and isinstance(node.get("items"), list):
        raise _error(path, "items is a schema where there are prefixItems, not a list of schemas")
    for key in _SCHEMA_LISTS:
        if key in node and (not isinstance(node[key], list) or not node[key]):
            raise _error(path, f"{key} is a list of at least one schema, not {str(node[key])[:100]!r}")
    for key in ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas"):
        for name, inner in node.get(key, {}).items():
            if not isinstance(inner, dict | bool):
                raise _error(f"{path}/{key}/{name}", f"a schema is an object, true or false, not {str(inner)[:100]!r}")


def _check_lists(node: dict[str, Any], path: str) -> None:
    required = node.get("required", [])
    if not isinstance(required, bool) and not _is_names(required):  # draft 3's true and false are passed over
        raise _error(path, f"required is a list of names, not {str(required)[:100]!r}")
    if "enum" in node and not isinstance(node["enum"], list):
        raise _error(path, f"enum is a list of values, not {str(node['enum'])[:100]!r}")
    for name, needed in (node.get("dependencies", {}) | node.get("dependentRequired", {})).items():
        if not isinstance(needed, dict | bool) and not _is_names(needed):
            raise _error(path, f"the dependency of {name[:100]!r} is a list of names or a schema")


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _error(path: str, why: str) -> SchemaError:
    return SchemaError(f"not a JSON Schema: at #{path or '/'}: {why}")
