"""The JSON documents of requests and answers. Pure: what a client sent becomes typed values, or an error that says what
is wrong.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.registry import errors
from headwater.registry.state import AVRO, SchemaContent, SchemaReference, Version
from headwater.schemas.tag_entities import Entity, EntityType
from headwater.web.messages import HttpError

TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
_REFERENCES_MAX: Final = 1000  # also of rules, and of entities with tags
_TAGS_MAX: Final = 1000  # of one entity
_MIGRATION: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_SERIALIZING: Final = ("WRITE", "READ", "WRITEREAD")
_RULE_MODES: Final = {"migrationRules": _MIGRATION, "domainRules": _SERIALIZING, "encodingRules": _SERIALIZING}
_RULE_KINDS: Final = ("TRANSFORM", "CONDITION")
_RULE_NAME: Final = re.compile(r"[^\W\d][\w-]{0,255}")
_RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type")
_RULE_TEXTS_AFTER: Final = ("expr", "onSuccess", "onFailure")


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """`version`: 0 is none given, -1 the latest; `id` below zero is none given. A schema without text is that of the
    version before, with other metadata or rules. Metadata or rules that are empty, and not None, are not to be those of
    the version before either.
    """

    content: SchemaContent
    id: int = -1
    version: int = 0
    tags_to_add: Mapping[Entity, list[str]] | None = None
    tags_to_remove: Mapping[Entity, list[str]] | None = None
    propagate_tags: bool = False


def schema_request(document: Any) -> SchemaRequest:
    if not isinstance(document, dict):
        raise HttpError(422, "The body of the request must be a JSON object", 422)
    text = document.get("schema") or ""
    if not isinstance(text, str):
        raise errors.invalid_schema("The schema must be text")
    schema_type = document.get("schemaType") or AVRO
    if not isinstance(schema_type, str) or schema_type.upper() not in TYPES:
        raise errors.invalid_schema(f"Invalid schema type {str(schema_type)[:100]!r}: it is one of {', '.join(TYPES)}")
    content = SchemaContent(
        text=utf8(text),
        schema_type=schema_type.upper(),
        references=_references(document.get("references")),
        metadata=given_or_empty(canonical_metadata, document.get("metadata")),
        rule_set=given_or_empty(canonical_rule_set, document.get("ruleSet")),
    )
    return SchemaRequest(
        content,
        whole_number(document, "id", -1),
        whole_number(document, "version", 0),
        requested_tags(document, "schemaTagsToAdd"),
        requested_tags(document, "schemaTagsToRemove"),
        document.get("propagateSchemaTags") is True,
    )


def utf8(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise errors.invalid_schema("The request has characters that are no Unicode (a lone surrogate)") from None
    return text


def whole_number(document: Mapping[str, Any], name: str, default: int) -> int:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**31:
        raise HttpError(422, f"{name} must be a whole number below 2^31", 422)
    return value


def _references(document: Any) -> tuple[SchemaReference, ...]:
    if not document:
        return ()
    if not isinstance(document, list) or len(document) > _REFERENCES_MAX:
        raise errors.invalid_schema(f"references must be a list of at most {_REFERENCES_MAX} references")
    found = []
    for each in document:
        name, subject, version = (
            (each.get("name"), each.get("subject"), each.get("version"))
            if isinstance(each, dict)
            else (None, None, None)
        )
        if not isinstance(name, str) or not isinstance(subject, str) or not name or not subject:
            raise errors.invalid_schema("A reference must have a name and a subject")
        if not isinstance(version, int) or isinstance(version, bool) or not -1 <= version < 2**31:
            raise errors.invalid_schema(f"The reference {name[:200]!r} must have a version")
        found.append(SchemaReference(utf8(name), utf8(subject), version))
    return tuple(found)


def requested_tags(document: Mapping[str, Any], name: str) -> dict[Entity, list[str]]:
    """`[{"schemaEntity": {"entityPath": "Order.card", "entityType": "sr_field"}, "tags": ["PII"]}]`"""
    given = document.get(name)
    if not given:
        return {}
    shape = f'{name} must be a list of {{"schemaEntity": {{"entityPath", "entityType"}}, "tags": [...]}}'
    if not isinstance(given, list) or len(given) > _REFERENCES_MAX:
        raise errors.invalid_schema(f"{shape}, at most {_REFERENCES_MAX}")
    found: dict[Entity, list[str]] = {}
    for each in given:
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        path, kind = (entity.get("entityPath"), entity.get("entityType")) if isinstance(entity, dict) else (None, None)
        tags = each.get("tags") if isinstance(each, dict) else None
        if not isinstance(path, str) or not isinstance(kind, str) or kind.lower() not in tuple(EntityType):
            raise errors.invalid_schema(f"{shape}; the type is sr_record or sr_field")
        if not isinstance(tags, list) or len(tags) > _TAGS_MAX or not all(isinstance(tag, str) for tag in tags):
            raise errors.invalid_schema(f"{shape}; tags are text, at most {_TAGS_MAX}")
        found.setdefault(Entity(utf8(path), EntityType(kind.lower())), []).extend(utf8(tag) for tag in tags)
    return found


def given_or_empty(canonical: Callable[[Any], dict[str, Any] | None], document: Any) -> dict[str, Any] | None:
    """None only where nothing was given."""
    found = canonical(document)
    return {} if found is None and document is not None else found


def canonical_metadata(document: Any) -> dict[str, Any] | None:
    """Sorted, and without what is empty; None if nothing is left."""
    if document is None:
        return None
    if not isinstance(document, dict):
        raise HttpError(422, "metadata must be a JSON object", 422)
    try:
        tags = {
            utf8(name): sorted({_text(each) for each in values})
            for name, values in (document.get("tags") or {}).items()
        }
        properties = {utf8(name): _text(value) for name, value in (document.get("properties") or {}).items()}
        sensitive = sorted({_text(each) for each in document.get("sensitive") or ()})
    except (TypeError, AttributeError):
        raise HttpError(
            422, "metadata has tags (lists of text), properties (text) and sensitive (a list)", 422
        ) from None
    result: dict[str, Any] = {}
    if tags:
        result["tags"] = dict(sorted(tags.items()))
    if properties:
        result["properties"] = dict(sorted(properties.items()))
    if sensitive:
        result["sensitive"] = sensitive
    return result or None


def canonical_rule_set(document: Any) -> dict[str, Any] | None:
    """Rules are stored and given back; nobody here carries them out."""
    if document is None:
        return None
    if not isinstance(document, dict):
        raise errors.invalid_rule_set("ruleSet must be a JSON object")
    result: dict[str, Any] = {}
    for name, modes in _RULE_MODES.items():
        rules = document.get(name)
        if rules is None or rules == []:
            continue
        if not isinstance(rules, list) or len(rules) > _REFERENCES_MAX:
            raise errors.invalid_rule_set(f"{name} must be a list of rules")
        result[name] = [_canonical_rule(each) for each in rules]
        for rule in result[name]:
            if rule["mode"] not in modes:
                allowed = ", ".join(modes)
                raise errors.invalid_rule_set(
                    f"The rule {rule['name']!r} is one of the {name}: its mode can only be {allowed}"
                )
    names: set[str] = set()
    for rule in (rule for name in _RULE_MODES for rule in result.get(name, ())):
        if rule["name"] in names:
            raise errors.invalid_rule_set(f"Found rule with duplicate name {rule['name']!r}")
        names.add(rule["name"])
    if document.get("enableAt"):
        result["enableAt"] = utf8(str(document["enableAt"]))
    return result or None


def _canonical_rule(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or not isinstance(document.get("name"), str) or not document["name"]:
        raise errors.invalid_rule_set("Rule name must not be empty")
    if not _RULE_NAME.fullmatch(document["name"]):
        named = document["name"][:100]
        raise errors.invalid_rule_set(
            f"Illegal rule name {named!r}: a letter or _ first, then letters, digits, _ and -, 256 at most"
        )
    if not document.get("type"):
        raise errors.invalid_rule_set(f"The rule {document['name']!r} has no type")
    given = {**document, "kind": document.get("kind") or "TRANSFORM", "mode": document.get("mode") or "WRITEREAD"}
    try:
        rule: dict[str, Any] = {name: _text(given[name]) for name in _RULE_TEXTS if given.get(name)}
        rule["kind"], rule["mode"] = rule["kind"].upper(), rule["mode"].upper()
        if document.get("tags"):
            rule["tags"] = sorted({_text(each) for each in document["tags"]})
        if document.get("params"):
            rule["params"] = {utf8(name): _text(document["params"][name]) for name in sorted(document["params"])}
        rule |= {name: _text(document[name]) for name in _RULE_TEXTS_AFTER if document.get(name)}
    except (TypeError, AttributeError):
        raise errors.invalid_rule_set(f"The rule {document['name'][:100]!r} is malformed") from None
    if rule["kind"] not in _RULE_KINDS:
        raise errors.invalid_rule_set(f"The kind of the rule {rule['name']!r} can only be {', '.join(_RULE_KINDS)}")
    actions = [rule.get("onSuccess", ""), rule.get("onFailure", "")]
    if rule["mode"] not in ("WRITEREAD", "UPDOWN") and any("," in each for each in actions):
        raise errors.invalid_rule_set(
            f"The rule {rule['name']!r} has several actions, which only WRITEREAD and UPDOWN can have"
        )
    return {**rule, "disabled": document.get("disabled") is True}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return utf8(value)


def schema_document(version: Version, text: str | None = None, *, with_deleted: bool = True) -> dict[str, Any]:
    """A version as GET /subjects/{subject}/versions/{version} gives it; `text` in another format."""
    content = version.content
    document: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    document |= {"guid": version.guid, **content_document(content), "schema": content.text if text is None else text}
    if version.timestamp_ms >= 0:
        document["ts"] = version.timestamp_ms
    if with_deleted:
        document["deleted"] = version.deleted
    return document


def content_document(content: SchemaContent) -> dict[str, Any]:
    """Everything of it but the text."""
    document: dict[str, Any] = {"schemaType": content.schema_type}
    if content.references:
        document["references"] = [each.document() for each in content.references]
    if content.metadata:
        document["metadata"] = content.metadata
    if content.rule_set:
        document["ruleSet"] = content.rule_set
    return document
