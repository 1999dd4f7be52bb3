"""Values held against their JSON Schema, by the jsonschema package, in time by their length.

Schemas come from whoever registered them, and values from whoever wrote them. The package matches patterns by Python's
own expressions, which can be made to run for ever, and looks for equal items pair by pair: those keywords are ours. A
pattern is matched by RE2; what RE2 does not know (looking around, back references) is refused, not matched some other
way.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import re2

from headwater.base.errors import UserError
from headwater.schemas.jsonschema import JsonSchema
from headwater.schemas.model import DataError

Validate = Callable[[Any], None]

_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
_CODE_UNIT: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\.", re.DOTALL)


def validator(parsed: JsonSchema) -> Validate:
    """A function that raises DataError for a value that the schema does not allow. Raises UserError for a schema that
    cannot be used so.
    """
    try:
        import jsonschema
        import referencing
        import referencing.jsonschema
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise _unusable(str(error), "pip install jsonschema, or leave validate off") from error
    dialect = parsed.document.get("$schema", _DRAFT_7) if isinstance(parsed.document, dict) else _DRAFT_7
    specification: Any = referencing.jsonschema.specification_with(dialect, default=referencing.jsonschema.DRAFT7)
    document = _of_one_dialect(parsed.document)
    known = {name: _of_one_dialect(each) for name, each in parsed.known.items()}
    _check([document, *known.values()])
    by_dialect = jsonschema.validators.validator_for({"$schema": dialect}, default=jsonschema.Draft7Validator)
    bounded = jsonschema.validators.extend(by_dialect, _keywords(jsonschema.ValidationError))
    resources = [(name, specification.create_resource(each)) for name, each in known.items()]
    made = bounded(document, registry=referencing.Registry().with_resources(resources))

    def validate(value: Any) -> None:
        try:
            made.validate(value)
        except jsonschema.ValidationError as error:
            raise DataError(f"{error.json_path}: {error.message}") from error
        except Unresolvable as error:
            raise DataError(f"the schema refers to something that is not there: {error}") from error
        except RecursionError as error:
            raise DataError("the value or its schema is too deep, or the schema refers to itself for ever") from error
        except (ArithmeticError, ValueError) as error:  # half a surrogate pair, a number beyond all doubles
            raise DataError(f"the value cannot be held against its JSON Schema: {error}") from error

    return validate


def _unusable(why: str, hint: str = "Leave validate off") -> UserError:
    return UserError("Values cannot be held against their JSON Schema", why, hint)


def _of_one_dialect(document: Any) -> Any:
    """A copy without `$schema`: where that stands, the package would go on with its own keywords."""
    document = copy.deepcopy(document)
    for node in _objects(document):
        if isinstance(node.get("$schema"), str):
            del node["$schema"]
    return document


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _check(documents: list[Any]) -> None:
    """Patterns that RE2 does not know, and the one keyword that would match them in the package's own way."""
    objects = [node for document in documents for node in _objects(document)]
    for node in objects:
        patterns = node.get("patternProperties")
        for pattern in (node.get("pattern"), *(patterns if isinstance(patterns, Mapping) else ())):
            if isinstance(pattern, str) and _compiled(pattern) is None:
                raise _unusable(f"the pattern {pattern[:200]!r} cannot be matched by RE2, in bounded time")
    if any("unevaluatedProperties" in node for node in objects) and any(
        node.get("patternProperties") for node in objects
    ):
        raise _unusable("unevaluatedProperties beside patternProperties is not matched in bounded time")


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_CODE_UNIT.sub(_code_point, pattern), options)
    except re2.error:
        return None


def _code_point(match: re.Match[str]) -> str:
    r"""JavaScript's \u0041 is \x{0041} to RE2."""
    return f"\\x{{{match[1]}}}" if match[1] else match[0]


def _keywords(failed: Callable[..., Exception]) -> dict[str, Callable[..., Iterator[Exception]]]:
    """Those of the keywords that the package would not carry out in bounded time; its functions look like this."""
    expressions: dict[str, Any] = {}

    def matches(pattern: str, text: str) -> bool:
        if pattern not in expressions:
            expressions[pattern] = _compiled(pattern)
        return expressions[pattern] is not None and expressions[pattern].search(text) is not None

    def pattern(validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[Exception]:
        if validator.is_type(instance, "string") and not matches(wanted, instance):
            yield failed(f"{instance[:200]!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Exception]:
        for wanted, inner in patterns.items() if validator.is_type(instance, "object") else ():
            for name, value in instance.items():
                if matches(wanted, name):
                    yield from validator.descend(value, inner, path=name, schema_path=wanted)

    def additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[Exception]:
        if not validator.is_type(instance, "object") or inner is True:
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name in instance:
            if name in known or any(matches(each, name) for each in patterns):
                continue
            if inner is False:
                yield failed(f"Additional properties are not allowed ({name!r} was unexpected)")
            else:
                yield from validator.descend(instance[name], inner, path=name)

    def unique_items(validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[Exception]:
        if wanted and validator.is_type(instance, "array"):
            texts = {json.dumps(_comparable(each), sort_keys=True) for each in instance}
            if len(texts) < len(instance):
                yield failed("the items are not unique")

    return {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": unique_items,
    }


def _comparable(value: Any) -> Any:
    """1 and 1.0 are one number of JSON."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    return [_comparable(each) for each in value] if isinstance(value, list) else value
