"""POST /subjects/{subject}/versions/{version}/tags: a version with other tags, metadata or rules is registered as the
next one. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwater.registry import errors
from headwater.registry.decisions import registering
from headwater.registry.decisions.documents import (
    SchemaRequest,
    canonical_metadata,
    canonical_rule_set,
    given_or_empty,
    requested_tags,
    utf8,
    whole_number,
)
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.steps import Decision, Steps
from headwater.registry.state import Version
from headwater.schemas.tag_entities import Entity
from headwater.web.messages import HttpError


@dataclass(frozen=True, slots=True)
class TagChange:
    """`new_version`: 0 is whichever comes next."""

    new_version: int
    tags_to_add: Mapping[Entity, list[str]]
    tags_to_remove: Mapping[Entity, list[str]]
    metadata: dict[str, Any] | None
    rule_set: dict[str, Any] | None
    rules_to_merge: dict[str, Any] | None
    rules_to_remove: frozenset[str] | None


def tag_change(document: Any) -> TagChange:
    if not isinstance(document, dict):
        raise HttpError(422, "The body of the request must be a JSON object", 422)
    merged, removed = document.get("rulesToMerge"), document.get("rulesToRemove")
    if document.get("ruleSet") is not None and (merged is not None or removed is not None):
        raise errors.invalid_rule_set("ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
    if removed is not None and not (isinstance(removed, list) and all(isinstance(each, str) for each in removed)):
        raise errors.invalid_rule_set("rulesToRemove must be a list of names")
    return TagChange(
        whole_number(document, "newVersion", 0),
        requested_tags(document, "tagsToAdd"),
        requested_tags(document, "tagsToRemove"),
        given_or_empty(canonical_metadata, document.get("metadata")),
        given_or_empty(canonical_rule_set, document.get("ruleSet")),
        canonical_rule_set(merged),
        frozenset(utf8(each) for each in removed) if removed is not None else None,
    )


def modification(registry: Registry, subject: str, version: Version, change: TagChange) -> Steps[Decision]:
    content = version.content
    if change.metadata is not None:
        content = replace(content, metadata=change.metadata)
    content = replace(content, rule_set=_rules(registry, subject, change))
    request = SchemaRequest(
        content,
        version=change.new_version or -1,
        tags_to_add=change.tags_to_add,
        tags_to_remove=change.tags_to_remove,
    )
    return (yield from registering.registration(registry, subject, request))


def _rules(registry: Registry, subject: str, change: TagChange) -> Mapping[str, Any] | None:
    """None: those of the version before."""
    if change.rules_to_merge is None and change.rules_to_remove is None:
        return change.rule_set
    state, number = registry.state, change.new_version - 1
    before = state.version(subject, number) if number > 0 else state.latest(subject)
    rules = registering.merged_rules(before.content.rule_set if before is not None else None, change.rules_to_merge)
    gone = change.rules_to_remove or frozenset()
    kept = {
        name: [rule for rule in each if rule.get("name") not in gone] if isinstance(each, list) else each
        for name, each in (rules or {}).items()
    }
    return {name: each for name, each in kept.items() if each}
