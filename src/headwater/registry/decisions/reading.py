"""Listings and lookups by subject, version, id and guid. Pure; nothing here writes."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headwater.registry import errors
from headwater.registry.decisions.documents import content_document, schema_document
from headwater.registry.decisions.settings import alias_of
from headwater.registry.decisions.steps import Page
from headwater.registry.state import State, Version
from headwater.registry.subjects import DEFAULT_CONTEXT, Subject, matches_prefix, parse_subject

LATEST: Final = "latest"
_VERSION_MAX: Final = 2**31 - 1

Visible: TypeAlias = Callable[[str], bool]  # which subjects the caller may see


def _all(_subject: str) -> bool:
    return True


def parse_version(text: str) -> int | None:
    """None is the latest one."""
    text = text.strip()
    if text.lower() == LATEST or text == "-1":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= _VERSION_MAX):
        raise errors.invalid_version(text)
    return int(text)


def list_subjects(
    state: State, prefix: str, page: Page, *, deleted: bool, deleted_only: bool, visible: Visible = _all
) -> list[str]:
    found = []
    for subject, versions in state.subjects.items():
        alive = any(not each.deleted for each in versions.values())
        if matches_prefix(subject, prefix) and visible(subject) and (not alive if deleted_only else alive or deleted):
            found.append(subject)
    return page.of(sorted(found))


def list_versions(
    state: State, subject: str, page: Page, *, deleted: bool, deleted_only: bool, deleted_as_negative: bool
) -> list[int]:
    every = state.versions(subject, deleted=True)
    chosen = [each for each in every if (each.deleted if deleted_only else deleted or not each.deleted)]
    if deleted_as_negative:
        chosen = every
    if not chosen:
        raise errors.subject_not_found(subject)
    numbers = [-each.version if deleted_as_negative and each.deleted else each.version for each in chosen]
    return page.of(numbers)


def one_version(state: State, subject: str, version: int | None, *, deleted: bool = False) -> Version:
    """Of a subject that has no context in its name, also one of another context that has such a subject."""
    for name in _names(state, subject):
        found = (
            state.latest(name, deleted=deleted) if version is None else state.version(name, version, deleted=deleted)
        )
        if found is not None:
            return found
    if not any(state.versions(name, deleted=deleted) for name in _names(state, subject)):
        raise errors.subject_not_found(subject)
    raise errors.version_not_found(-1 if version is None else version)


def _names(state: State, subject: str) -> list[str]:
    return [subject] if subject in state.subjects else names_of(state, subject)


def names_of(state: State, subject: str) -> list[str]:
    """Where a subject is looked for: one that has no context in its name, in the others after the default one."""
    parsed = parse_subject(subject)
    if parsed.context != DEFAULT_CONTEXT:
        return [subject]
    return [subject, *(Subject(context, parsed.name).text for context in state.contexts)]


def version_with_id(state: State, id_: int, subject: str | None) -> Version:
    """The schema of an id: in the context of the subject, else in the one where a subject of that name has it."""
    parsed = parse_subject(subject or "")
    here = state.with_id(parsed.context, id_)
    if parsed.name:
        named = [each for each in here if each.subject == parsed.text]
        if not named and parsed.context == DEFAULT_CONTEXT:
            for context in state.contexts:
                text = Subject(context, parsed.name).text
                named = [each for each in state.with_id(context, id_) if each.subject == text]
                if named:
                    break
        here = named or here
    if not here:
        raise errors.schema_not_found(id_)
    return min(here, key=lambda each: each.deleted)


def id_document(version: Version, subject: str | None, text: str, max_id: int | None) -> dict[str, Any]:
    """GET /schemas/ids/{id}. Which subject and version it is from is told to those who asked for a subject."""
    document: dict[str, Any] = {}
    if subject:  # confluent-kafka's client keeps it as what GET .../versions/{version} would say, and needs the id then
        document = {"subject": version.subject, "version": version.version, "id": version.id}
    document |= {"guid": version.guid, **content_document(version.content), "schema": text}
    return document if max_id is None else {**document, "maxId": max_id}


def versions_with_id(state: State, id_: int, subject: str | None, *, deleted: bool) -> list[Version]:
    """Every version that has the id, in the context that the subject says; none of them if all are deleted."""
    context = parse_subject(version_with_id(state, id_, subject).subject).context
    found = [each for each in state.with_id(context, id_) if deleted or not each.deleted]
    return sorted(found, key=lambda each: each.place)


def version_with_guid(state: State, guid: str, visible: Visible = _all) -> Version:
    found = [each for each in state.with_guid(guid.lower()) if visible(each.subject)]
    if not found:
        raise errors.schema_not_found(guid[:100])
    return found[0]


def ids_of_guid(state: State, guid: str, visible: Visible = _all) -> list[dict[str, Any]]:
    seen = [each for each in state.with_guid(guid.lower()) if visible(each.subject)]
    pairs = {(parse_subject(each.subject).context, each.id) for each in seen}
    return [{"context": context, "id": id_} for context, id_ in sorted(pairs)]


def referenced_by(state: State, subject: str, version: int | None, page: Page, *, deleted: bool) -> list[int]:
    """The ids of the schemas that refer to a version."""
    found = one_version(state, subject, version, deleted=True)
    return page.of(sorted({each.id for each in state.referrers(found.place, deleted=deleted)}))


def latest_with_metadata(state: State, subject: str, wanted: dict[str, str], *, deleted: bool) -> Version:
    """GET /subjects/{subject}/metadata?key=..&value=..: the latest version whose properties are these."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise errors.subject_not_found(subject)
    for each in reversed(versions):
        properties = ((each.content.metadata or {}).get("properties")) or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return each
    raise errors.schema_not_found()


def list_schemas(
    state: State,
    prefix: str,
    page: Page,
    *,
    deleted: bool,
    latest_only: bool,
    rule_type: str,
    aliases: bool = False,
    visible: Visible = _all,
) -> list[dict[str, Any]]:
    """GET /schemas. With `aliases`, subjects whose alias begins so are listed too,
    and each says what aliases it has.
    """
    found: list[Version] = []
    named = _aliases(state, prefix, visible) if aliases else {}
    for subject in sorted(state.subjects):
        if not (matches_prefix(subject, prefix) or subject in named) or not visible(subject):
            continue
        versions = state.versions(subject, deleted=deleted)
        found += versions[-1:] if latest_only else versions
    if rule_type:
        found = [each for each in found if rule_type in _rule_types(each)]
    return [
        {**schema_document(each), **({"aliases": named[each.subject]} if each.subject in named else {})}
        for each in page.of(found)
    ]


def _aliases(state: State, prefix: str, visible: Visible) -> dict[str, list[str]]:
    """Of each subject, the aliases of it that begin so and may be seen themselves."""
    found: dict[str, list[str]] = {}
    for subject in sorted(each for each in state.configs if each is not None and matches_prefix(each, prefix)):
        meant = alias_of(state, subject)
        if meant != subject and visible(subject):
            found.setdefault(meant, []).append(subject)
    return found


def _rule_types(version: Version) -> set[str]:
    rules = [rule for each in (version.content.rule_set or {}).values() if isinstance(each, list) for rule in each]
    return {str(rule.get("type")) for rule in rules}


def list_contexts(state: State, prefix: str, page: Page) -> list[str]:
    return page.of(sorted(each for each in {DEFAULT_CONTEXT, *state.contexts} if each.startswith(prefix)))
