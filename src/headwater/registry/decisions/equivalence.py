"""A schema that is registered already, in another form. Pure.

Its text may be normalized, or not, while the registered one is the other; a producer's generated class has everything
written out that the registered schema refers to (Avro); and nobody but the registry knows the number in
`confluent:version`. Such a schema is the registered one, as in Confluent's registry: it is found, and not registered as
another version.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Steps, Work
from headwater.registry.state import AVRO, SchemaContent, State, Version
from headwater.schemas import ParsedSchema, SchemaError
from headwater.web.messages import HttpError

VERSION_PROPERTY: Final = "confluent:version"  # of metadata: set by the registry where a client asked for it
_CHARACTERS_MAX: Final = 4 * 1024 * 1024  # of versions that are looked into for one request, the latest first


def equivalent_version(
    state: State, parser: SchemaParser, subject: str, wanted: SchemaContent, *, deleted: bool
) -> Steps[Version | None]:
    """The latest version that is the same schema. `wanted` is canonical, or normalized."""
    characters = 0
    sorted_text: str = yield Work(partial(_sorted_json, wanted), len(wanted.text))
    for each in reversed(state.versions(subject, deleted=deleted)):
        written_out = each.content.references != wanted.references
        if not _may_be(wanted, each, written_out=written_out):
            continue
        characters += len(each.content.text)
        if characters > _CHARACTERS_MAX:
            return None
        try:
            forms = yield from _forms_of(state, parser, each, written_out=written_out)
        except (HttpError, SchemaError):
            continue  # another registry has written it, and it cannot be read here: it is none that could be
        if wanted.text in forms or (sorted_text and sorted_text in forms):
            return each
    return None


def _forms_of(state: State, parser: SchemaParser, version: Version, *, written_out: bool) -> Steps[tuple[str, ...]]:
    subject, content = version.subject, version.content
    parsed = yield from parser.parsing(state, subject, content)
    if written_out:
        text: str = yield Work(partial(parsed.formatted, "resolved"), len(content.text))
        parsed = yield from parser.parsing(state, subject, replace(content, text=text, references=()))
    forms: tuple[str, ...] = yield Work(partial(_forms, parsed, content), len(content.text))
    return forms


def _may_be(wanted: SchemaContent, registered: Version, *, written_out: bool) -> bool:
    """As far as can be said without looking into their texts."""
    stored = registered.content
    if stored.schema_type != wanted.schema_type or stored.rule_set != wanted.rule_set:
        return False
    if written_out and (stored.schema_type != AVRO or wanted.references):
        return False
    return _same_metadata(wanted.metadata, registered)


def _forms(parsed: ParsedSchema, content: SchemaContent) -> tuple[str, ...]:
    return parsed.canonical, parsed.normalized(), *filter(None, [_sorted_json(content)])


def _sorted_json(content: SchemaContent) -> str:
    """Of a JSON Schema, whose canonical text has its names in the order in which they came; of others none."""
    if content.schema_type != "JSON":
        return ""
    return json.dumps(json.loads(content.text), sort_keys=True)


def _same_metadata(wanted: Mapping[str, Any] | None, registered: Version) -> bool:
    """But for the version that only one of them names, which must be the registered one's own."""
    stored = registered.content.metadata
    named, own = _version_property(wanted), _version_property(stored)
    if (named is None) == (own is None):
        return wanted == stored
    if named is not None and named != str(registered.version):
        return False
    return _without_version(wanted) == _without_version(stored)


def _version_property(metadata: Mapping[str, Any] | None) -> Any:
    return ((metadata or {}).get("properties") or {}).get(VERSION_PROPERTY)


def _without_version(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    properties = {
        name: value for name, value in ((metadata or {}).get("properties") or {}).items() if name != VERSION_PROPERTY
    }
    return {name: value for name, value in {**(metadata or {}), "properties": properties}.items() if value}
