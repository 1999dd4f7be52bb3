"""Tags inside schemas: those that a request adds or removes, those that the version before had, and listing them.
Pure.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from headwater.registry import errors
from headwater.registry.decisions.documents import SchemaRequest
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Steps, Work
from headwater.registry.state import SchemaContent, State, Version
from headwater.schemas import SchemaError
from headwater.schemas.tag_entities import Entity, Tags
from headwater.schemas.tags import tagged_entities, with_tags

ANY: Final = "*"


def tagged(state: State, parser: SchemaParser, subject: str, request: SchemaRequest) -> Steps[SchemaRequest]:
    """The request with its tags in its schema. A version that nobody numbered gets its number into its metadata, so
    that it is a version of its own.
    """
    if not request.tags_to_add and not request.tags_to_remove:
        return request
    content = yield from retagged(
        state, parser, subject, request.content, request.tags_to_add or {}, request.tags_to_remove or {}
    )
    return replace(request, content=content, version=request.version or -1, tags_to_add=None, tags_to_remove=None)


def retagged(
    state: State, parser: SchemaParser, subject: str, content: SchemaContent, add: Tags, remove: Tags
) -> Steps[SchemaContent]:
    parsed = yield from parser.parsing(state, subject, content)
    try:
        text: str = yield Work(lambda: with_tags(parsed, add, remove), len(content.text))
    except SchemaError as problem:
        raise errors.invalid_schema(str(problem)) from None
    return replace(content, text=text)


def with_tags_of(
    state: State, parser: SchemaParser, subject: str, content: SchemaContent, previous: Version | None
) -> Steps[SchemaContent]:
    """`propagateSchemaTags`: with the tags that the version before has."""
    if previous is None:
        return content
    tags = yield from _tags_of(state, parser, previous)
    if not tags:
        return content
    return (yield from retagged(state, parser, subject, content, tags, {}))


def _tags_of(state: State, parser: SchemaParser, version: Version) -> Steps[dict[Entity, list[str]]]:
    parsed = yield from parser.parsing(state, version.subject, version.content)
    try:
        found: dict[Entity, list[str]] = yield Work(lambda: tagged_entities(parsed), len(version.content.text))
    except SchemaError as problem:
        raise errors.invalid_schema(str(problem)) from None
    return found


def schema_tags(
    state: State, parser: SchemaParser, version: Version, wanted: Iterable[str]
) -> Steps[list[dict[str, Any]]]:
    """`findTags`: the entities that have one of the tags; `*` is any."""
    names = {part for each in wanted for part in each.split(",")}
    found = yield from _tags_of(state, parser, version)
    return [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.type.value}, "tags": tags}
        for entity, tags in found.items()
        if ANY in names or names.intersection(tags)
    ]
