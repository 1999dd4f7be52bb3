"""Registering a schema, looking one up, and whether one would be compatible. Pure.

The same schema in the same context has the same id, also under other subjects and after a soft deletion; a new one gets
the next id. A version number grows by one from the highest that the subject has, deleted ones included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.registry import errors, records
from headwater.registry.decisions.documents import SchemaRequest, content_document
from headwater.registry.decisions.equivalence import VERSION_PROPERTY, equivalent_version
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.settings import (
    config_in_scope,
    is_import,
    mode_in_scope,
    require_writable,
    validates_fields,
    validates_new_schemas,
)
from headwater.registry.decisions.steps import Decision, Rules, Steps, Work
from headwater.registry.decisions.tagging import tagged, with_tags_of
from headwater.registry.records import Key, Record
from headwater.registry.state import AVRO, SchemaContent, State, Version, value_of
from headwater.registry.subjects import DEFAULT_CONTEXT, beside, is_valid, parse_subject
from headwater.schemas import CompatibilityLevel, CompatibilityPolicy, ParsedSchema, SchemaError, check
from headwater.web.messages import HttpError

_NUMBER_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Registry:
    """What every decision stands on."""

    state: State
    rules: Rules
    parser: SchemaParser


def registration(
    registry: Registry, subject: str, request: SchemaRequest, *, normalize: bool = False, force: bool = False
) -> Steps[Decision]:
    """POST /subjects/{subject}/versions, at the leader."""
    state = registry.state
    if not is_valid(subject):
        raise errors.invalid_subject(subject)
    _check_size(registry, request.content)
    request = yield from tagged(state, registry.parser, subject, request)
    existing = yield from already_registered(registry, subject, request, normalize=normalize)
    if existing is not None:
        return Decision([], registered_document(existing))
    _check_mode(registry, subject, request)
    importing = is_import(mode_in_scope(state, subject))
    config = config_in_scope(state, registry.rules, subject)
    undeleted = state.versions(subject)
    new_version = max((each.version for each in state.versions(subject, deleted=True)), default=0) + 1
    previous = undeleted[-1] if undeleted else None
    content = _with_text(request.content, previous)
    if not importing:
        if request.propagate_tags:
            content = yield from with_tags_of(state, registry.parser, subject, content, previous)
        content = _populated(config, content, previous, request.version, new_version)
    content = _without_empty(content)
    _check_size(registry, content)
    content, parsed = yield from canonical(registry, subject, content, config, normalize=normalize)
    context = parse_subject(subject).context
    same = [each for each in state.with_guid(content.guid()) if parse_subject(each.subject).context == context]
    if request.version == 0 and (request.id < 0 or request.id in {each.id for each in same}):
        here = [each for each in same if each.subject == subject and not each.deleted and _has_id(each, request)]
        if here:
            return Decision([], registered_document(here[-1]))
        equivalent = yield from equivalent_version(state, registry.parser, subject, content, deleted=False)
        if equivalent is not None and _has_id(equivalent, request):
            return Decision([], registered_document(equivalent))
    schema_id = request.id if request.id >= 0 else (same[0].id if same else state.next_id(context))
    if not importing:
        _require_complete(registry, content, parsed, config)
    if not importing and not force:
        messages = yield from compatibility(registry, content, parsed, undeleted, config)
        if messages:
            raise errors.incompatible(subject, messages)
    version = _version_number(request, new_version, importing)
    _check_range(schema_id, version, subject)
    _check_id(state, context, schema_id, content)
    made = Version(subject, version, schema_id, content, content.guid())
    return Decision(_records(state, made), registered_document(made))


def _has_id(version: Version, request: SchemaRequest) -> bool:
    """Whether it may be the answer: an import that brings its own id gets that one, or is written."""
    return request.id < 0 or request.id == version.id


def _with_text(content: SchemaContent, previous: Version | None) -> SchemaContent:
    """A request without a schema is about the one before: it has other metadata or rules."""
    if content.text.strip() or previous is None:
        return content
    before = previous.content
    return replace(content, text=before.text, schema_type=before.schema_type, references=before.references)


def _check_size(registry: Registry, content: SchemaContent) -> None:
    limit = registry.rules.schema_bytes_max
    if len(content.text.encode()) > limit:
        raise errors.too_large(f"Register operation failed because schema is too large: more than {limit} bytes")


def already_registered(
    registry: Registry, subject: str, request: SchemaRequest, *, normalize: bool
) -> Steps[Version | None]:
    """What any node can answer without the leader: clients register what they know at each start."""
    config = config_in_scope(registry.state, registry.rules, subject)
    extended = any(
        config.get(name) for name in ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
    )
    has_tags = request.tags_to_add or request.tags_to_remove or request.propagate_tags
    is_new = has_tags or not request.content.text.strip()
    if extended or is_new or not registry.state.versions(subject):
        return None
    if request.version > 0:
        return (yield from _same_version(registry, subject, request, config, normalize=normalize))
    found = yield from lookup(registry, subject, request.content, normalize=normalize, deleted=False)
    if found is None or not _has_id(found, request):
        return None
    is_next = request.version == -1 and found != registry.state.latest(subject)  # an older one, to be the latest again
    return None if is_next else found


def _same_version(
    registry: Registry, subject: str, request: SchemaRequest, config: Mapping[str, Any], *, normalize: bool
) -> Steps[Version | None]:
    """The version that the request names, if it is that one, with its id: a copy that is made once more."""
    there = registry.state.version(subject, request.version)
    if there is None or there.id != request.id:
        return None
    content, _ = yield from canonical(registry, subject, request.content, config, normalize=normalize)
    return there if _without_empty(content) == there.content else None


def lookup(
    registry: Registry, subject: str, content: SchemaContent, *, normalize: bool, deleted: bool
) -> Steps[Version | None]:
    """The version of the subject that is this schema; first as it came, then as it would be extended when
    registered.
    """
    config = config_in_scope(registry.state, registry.rules, subject)
    wanted, _ = yield from canonical(registry, subject, content, config, normalize=normalize)
    extended = _without_empty(_populated(config, wanted, registry.state.latest(subject), 0, None))
    wanted = _without_empty(wanted)
    for each in (wanted,) if extended == wanted else (wanted, extended):
        found = _version_with(registry.state, subject, each, deleted)
        if found is None:
            found = yield from equivalent_version(registry.state, registry.parser, subject, each, deleted=deleted)
        if found is not None:
            return found
    return None


def _version_with(state: State, subject: str, content: SchemaContent, deleted: bool) -> Version | None:
    found = [
        each for each in state.with_guid(content.guid()) if each.subject == subject and (deleted or not each.deleted)
    ]
    return max(found, key=lambda each: each.version) if found else None


def canonical(
    registry: Registry, subject: str, content: SchemaContent, config: Mapping[str, Any], *, normalize: bool
) -> Steps[tuple[SchemaContent, ParsedSchema]]:
    """The schema in the form in which it is stored and compared; a reference to the latest version names it. With
    `validateFields`, one whose names are kept for others is none. An import is not looked into so far, nor normalized.
    """
    importing = is_import(mode_in_scope(registry.state, subject))
    normalize = not importing and (normalize or config.get("normalize") is True)
    if not content.text.strip():
        raise errors.invalid_schema("Empty schema")
    references = []
    for each in content.references:
        if each.version == -1:
            latest = registry.state.latest(beside(subject, each.subject))
            if latest is None:
                raise errors.invalid_schema(f'No schema reference found for subject "{each.subject}" and version -1')
            references.append(replace(each, version=latest.version))
        else:
            references.append(each)
    content = replace(content, references=tuple(references))
    parsed = yield from registry.parser.parsing(registry.state, subject, content)
    if validates_fields(registry.rules, config) and not importing:
        problem = parsed.name_problem()
        if problem:
            raise errors.invalid_schema(f"Invalid schema of type {content.schema_type}: {problem}")
    try:
        text = yield Work(parsed.normalized if normalize else lambda: parsed.canonical, len(content.text))
    except SchemaError as problem:
        raise errors.invalid_schema(f"Invalid schema of type {content.schema_type}: {problem}") from None
    if normalize:
        content = replace(content, references=tuple(sorted(set(content.references), key=lambda each: each.name)))
    return replace(content, text=text), parsed


def _require_complete(
    registry: Registry, content: SchemaContent, parsed: ParsedSchema, config: Mapping[str, Any]
) -> None:
    """What `validateNewSchemas` is about are the defaults and names of Avro."""
    if content.schema_type == AVRO and not validates_new_schemas(registry.rules, config):
        return
    try:
        parsed.require_complete()
    except SchemaError as problem:
        raise errors.invalid_schema(f"Invalid schema of type {content.schema_type}: {problem}") from None


def compatibility(
    registry: Registry,
    content: SchemaContent,
    parsed: ParsedSchema,
    previous: Sequence[Version],
    config: Mapping[str, Any],
) -> Steps[list[str]]:
    """Why the schema may not follow `previous` (oldest first); empty if it may."""
    level = CompatibilityLevel(str(config.get("compatibilityLevel") or registry.rules.compatibility).upper())
    messages = yield from _incompatibilities(registry, content, parsed, previous, config, level)
    validates = validates_fields(registry.rules, config)
    if validates:
        messages = [*_about_reserved_fields(content, parsed, previous[-1].content if previous else None), *messages]
    if messages:
        messages.append(f"{{validateFields: '{str(validates).lower()}', compatibility: '{level}'}}")
    return messages


def _about_reserved_fields(content: SchemaContent, parsed: ParsedSchema, before: SchemaContent | None) -> list[str]:
    """Names that `confluent:reserved` of the metadata keeps from being used. Who has once kept one keeps it on."""
    reserved = _reserved_fields(content)
    removed = sorted(_reserved_fields(before) - reserved) if before is not None else []
    used = sorted(reserved & parsed.top_level_fields())
    return [
        *(f"The field {each} is reserved in the metadata of the old schema, and not in that of the new one" for each in removed),
        *(f"The new schema has a field {each}, which its metadata reserves" for each in used),
    ]  # fmt: skip


def _reserved_fields(content: SchemaContent) -> set[str]:
    named = str(_property(content, "confluent:reserved") or "").split(",")
    return {each.strip() for each in named if each.strip()}


def _incompatibilities(
    registry: Registry,
    content: SchemaContent,
    parsed: ParsedSchema,
    previous: Sequence[Version],
    config: Mapping[str, Any],
    level: CompatibilityLevel,
) -> Steps[list[str]]:
    policy = str(config.get("compatibilityPolicy")).upper()
    policy = CompatibilityPolicy(policy) if policy in tuple(CompatibilityPolicy) else CompatibilityPolicy.STRICT
    group = config.get("compatibilityGroup")
    if group:
        previous = [each for each in previous if _property(each.content, group) == _property(content, group)]
    if level is CompatibilityLevel.NONE or not previous:
        return []
    candidates = list(previous) if level.transitive else [previous[-1]]
    others = []
    for each in candidates:
        others.append((yield from registry.parser.parsing(registry.state, each.subject, each.content)))
    size = len(content.text) * len(others) + sum(len(each.content.text) for each in candidates)
    try:
        messages: list[str] = yield Work(lambda: check(parsed, others, level, policy), size)
    except SchemaError as problem:
        raise errors.invalid_schema(str(problem)) from None
    if messages:
        oldest = candidates[-1]
        messages = [*messages, f"{{oldSchemaVersion: {oldest.version}}}"]
    return messages


def compatibility_check(
    registry: Registry,
    subject: str,
    request: SchemaRequest,
    previous: Sequence[Version],
    *,
    normalize: bool,
    verbose: bool,
) -> Steps[dict[str, Any]]:
    """POST /compatibility/subjects/{subject}/versions[/{version}]."""
    config = config_in_scope(registry.state, registry.rules, subject)
    try:
        _check_size(registry, request.content)
        content, parsed = yield from canonical(registry, subject, request.content, config, normalize=normalize)
        _require_complete(registry, content, parsed, config)
        messages = yield from compatibility(registry, content, parsed, previous, config)
    except HttpError as problem:
        if not verbose or problem.code != 42201:
            raise
        messages = [problem.message]
    return {"is_compatible": not messages, **({"messages": messages} if verbose else {})}


def formatted(registry: Registry, version: Version, wanted: str) -> Steps[str]:
    """The text of a version in another format: `serialized` of Protobuf is its descriptor, in base64."""
    parsed = yield from registry.parser.parsing(registry.state, version.subject, version.content)
    try:
        text: str = yield Work(lambda: parsed.formatted(wanted), len(version.content.text))
    except SchemaError as problem:
        raise errors.invalid_schema(str(problem)) from None
    return text


def registered_document(version: Version, text: str | None = None) -> dict[str, Any]:
    """`text` in another format than it is stored in."""
    document = {"id": version.id, "version": version.version, "guid": version.guid}
    return {**document, **content_document(version.content), "schema": version.content.text if text is None else text}


def _check_mode(registry: Registry, subject: str, request: SchemaRequest) -> None:
    require_writable(registry.state, subject)
    mode = mode_in_scope(registry.state, subject)
    where = f"Subject {subject} in context {parse_subject(subject).context}"
    if request.id >= 0 and not is_import(mode):
        raise errors.not_permitted(f"{where} is not in import mode")
    if request.id < 0 and mode != "READWRITE":
        raise errors.not_permitted(f"{where} is not in read-write mode")


def _check_range(schema_id: int, version: int, subject: str) -> None:
    """Records carry an id in 32 bits, with a sign. An import may have taken the last one."""
    if schema_id > _NUMBER_MAX:
        raise errors.not_permitted(f"No schema id is left in the context of subject {subject}: {_NUMBER_MAX} is taken")
    if version > _NUMBER_MAX:
        raise errors.not_permitted(f"No version is left in subject {subject}: {_NUMBER_MAX} is taken")


def _check_id(state: State, context: str, schema_id: int, content: SchemaContent) -> None:
    if any(each.content != content for each in state.with_id(context, schema_id)):
        raise errors.not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")


def _version_number(request: SchemaRequest, new_version: int, importing: bool) -> int:
    if request.version <= 0:
        return new_version
    if request.version != new_version and not importing:
        raise errors.invalid_schema("Version is not one more than previous version")
    return request.version


def _records(state: State, made: Version) -> list[Record]:
    """Its context if that is new, tombstones of soft-deleted versions that are the same schema, and the version
    itself.
    """
    written = []
    context = parse_subject(made.subject).context
    if context != DEFAULT_CONTEXT and context not in state.contexts:
        written.append(Record(Key(records.CONTEXT, context), {"tenant": records.TENANT, "context": context}))
    for each in state.versions(made.subject, deleted=True):
        is_same = each.deleted and each.id == made.id and each.version < made.version
        if is_same and not state.referrers(each.place, deleted=True):
            written.append(Record(Key(records.SCHEMA, each.subject, each.version), None))
    replaced = state.version(made.subject, made.version, deleted=True)  # by an import, which brings its own numbers
    if replaced is not None and replaced.id != made.id:
        written.append(records.noop(state.max_ids))
    written.append(Record(Key(records.SCHEMA, made.subject, made.version), value_of(made)))
    return written


def _property(content: SchemaContent, name: str) -> Any:
    return ((content.metadata or {}).get("properties") or {}).get(name)


def _populated(
    config: Mapping[str, Any], content: SchemaContent, previous: Version | None, version: int, new_version: int | None
) -> SchemaContent:
    """With the metadata and rules that the config in scope or the version before adds."""
    inherited = previous.content if previous is not None else None
    metadata = content.metadata if content.metadata is not None else (inherited.metadata if inherited else None)
    rule_set = content.rule_set if content.rule_set is not None else (inherited.rule_set if inherited else None)
    metadata = _merged_metadata(
        _merged_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata")
    )
    rule_set = merged_rules(merged_rules(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet"))
    properties = (metadata or {}).get("properties") or {}
    if new_version is not None and (version != 0 or VERSION_PROPERTY in properties):
        properties = dict(sorted({**properties, VERSION_PROPERTY: str(new_version)}.items()))
        metadata = _ordered({**(metadata or {}), "properties": properties}, ("tags", "properties", "sensitive"))
    return replace(content, metadata=metadata, rule_set=rule_set)


def _without_empty(content: SchemaContent) -> SchemaContent:
    """As it is stored: what is empty is not there."""
    return replace(content, metadata=content.metadata or None, rule_set=content.rule_set or None)


def _merged_metadata(under: Mapping[str, Any] | None, over: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if not under or not over:
        return over or under or None
    tags, properties = ({**(under.get(name) or {}), **(over.get(name) or {})} for name in ("tags", "properties"))
    sensitive = sorted({*(under.get("sensitive") or ()), *(over.get("sensitive") or ())})
    merged = {
        "tags": dict(sorted(tags.items())),
        "properties": dict(sorted(properties.items())),
        "sensitive": sensitive,
    }
    return {name: value for name, value in merged.items() if value}


def merged_rules(under: Mapping[str, Any] | None, over: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Rules of both; one of `over` replaces that of the same name."""
    if not under or not over:
        return over or under or None
    merged: dict[str, Any] = {}
    for name in ("migrationRules", "domainRules", "encodingRules"):
        later = over.get(name) or []
        replaced = {each.get("name") for each in later}
        rules = [each for each in under.get(name) or [] if each.get("name") not in replaced] + later
        if rules:
            merged[name] = rules
    enable_at = over.get("enableAt") or under.get("enableAt")
    return {**merged, **({"enableAt": enable_at} if enable_at else {})}


def _ordered(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: document[name] for name in names if document.get(name)}
