"""Config and mode: of a subject, of a context, of all. Pure.

What is not set for a subject is looked for in its context, then in `:.__GLOBAL:`, and at last in the properties of the
registry. What is set without a subject is the default context's, and holds in no other.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.registry import errors, records
from headwater.registry.decisions.documents import canonical_metadata, canonical_rule_set, utf8
from headwater.registry.decisions.steps import Decision, Rules
from headwater.registry.records import Key, Record
from headwater.registry.state import State, Version
from headwater.registry.subjects import GLOBAL_CONTEXT, beside, is_valid, is_within, parse_subject
from headwater.schemas import CompatibilityLevel, CompatibilityPolicy
from headwater.web.messages import HttpError

READWRITE: Final = "READWRITE"
IMPORT: Final = "IMPORT"
_MODES: Final = (READWRITE, "READONLY", "READONLY_OVERRIDE", IMPORT, "FORWARD")
_GLOBAL: Final = f":{GLOBAL_CONTEXT}:"
_BOOLEANS: Final = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
_INHERITED: Final = (*_BOOLEANS, "compatibilityLevel", "compatibilityPolicy", "compatibilityGroup")
_CONFIG_NAMES: Final = (
    "alias",
    "aliasForDeks",
    *_INHERITED,
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


def scope(subject: str | None) -> list[str | None]:
    """Where settings of a subject are looked for, nearest first."""
    if subject is None:
        return [None, _GLOBAL]
    return list(dict.fromkeys([subject, parse_subject(subject).context_text, _GLOBAL]))


def settings_key(subject: str | None) -> str | None:
    """The name under which settings are kept: none for the default context."""
    if subject is None or subject == ":.:":
        return None
    if not is_valid(subject, context_alone=True):
        raise errors.invalid_subject(subject)
    parsed = parse_subject(subject)
    return parsed.context_text if not parsed.name else parsed.text


# Config


def config_in_scope(state: State, rules: Rules, subject: str | None) -> dict[str, Any]:
    """What holds for the subject; what its own config leaves open is taken from the one for all, but for what it adds
    to schemas.
    """
    found = next((state.configs[each] for each in scope(subject) if each in state.configs), {})
    if subject in state.configs:
        everywhere = state.configs.get(None, {})
        found = {**{name: everywhere[name] for name in _INHERITED if name in everywhere}, **found}
    return {"compatibilityLevel": rules.compatibility, **found}


def validates_fields(rules: Rules, config: Mapping[str, Any]) -> bool:
    """Whether names of fields that are kept for others are refused."""
    given = config.get("validateFields")
    return rules.validate_fields if given is None else given is True


def validates_new_schemas(rules: Rules, config: Mapping[str, Any]) -> bool:
    """Whether defaults and names of Avro are looked at when a schema is registered."""
    given = config.get("validateNewSchemas")
    return rules.validate_new_schemas if given is None else given is True


def config(state: State, rules: Rules, subject: str | None, *, default_to_global: bool) -> dict[str, Any]:
    """GET /config[/{subject}]."""
    key = settings_key(subject)
    if default_to_global:
        return _ordered(config_in_scope(state, rules, key))
    if key in (None, _GLOBAL):
        return _ordered({"compatibilityLevel": rules.compatibility, **state.configs.get(key, {})})
    if key not in state.configs:
        raise errors.compatibility_not_configured(str(subject))
    return _ordered(state.configs[key])


def set_config(state: State, subject: str | None, document: Any) -> Decision:
    """PUT /config[/{subject}]: changes what is given, and removes what is given as null. Answers what is set then."""
    key = settings_key(subject)
    require_writable(state, key)
    given = _config_given(document)
    merged = {**state.configs.get(key, {}), **given}
    value = _ordered({name: each for name, each in merged.items() if each is not None})
    stored = {"subject": key, **value} if key is not None else value
    answer = {"compatibility" if name == "compatibilityLevel" else name: each for name, each in value.items()}
    return Decision([Record(Key(records.CONFIG, key), stored)], answer)


def _config_given(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise HttpError(422, "The body of the request must be a JSON object", 422)
    given: dict[str, Any] = {}
    for name in _CONFIG_NAMES:
        sent = "compatibility" if name == "compatibilityLevel" else name
        if sent not in document:
            continue
        value = document[sent]
        if value is None:
            pass
        elif name == "compatibilityLevel":
            value = str(value).upper()
            if value not in CompatibilityLevel.__members__:
                raise errors.invalid_compatibility()
        elif name == "compatibilityPolicy":
            value = str(value).upper()
            if value not in CompatibilityPolicy.__members__:
                raise HttpError(422, f"compatibilityPolicy can only be {' or '.join(CompatibilityPolicy)}", 422)
        elif name in _BOOLEANS:
            if not isinstance(value, bool):
                raise HttpError(422, f"{name} must be true or false", 422)
        elif name.endswith("Metadata"):
            value = canonical_metadata(value)
        elif name.endswith("RuleSet"):
            value = canonical_rule_set(value)
        elif not isinstance(value, str) or len(value) > 1000:
            raise HttpError(422, f"{name} must be text", 422)
        else:
            value = utf8(value)
        given[name] = value
    return given


def delete_config(state: State, rules: Rules, subject: str | None) -> Decision:
    """DELETE /config[/{subject}]; answers what was set."""
    key = settings_key(subject)
    require_writable(state, key)
    if key is not None and key not in state.configs:
        raise errors.subject_not_found(str(subject))
    before = _ordered(state.configs[key] if key in state.configs else config_in_scope(state, rules, None))
    return Decision([Record(Key(records.CONFIG, key), None)] if key in state.configs else [], before)


def alias_of(state: State, subject: str) -> str:
    """The subject that is meant: an alias in its config stands for another of the same context."""
    alias = state.configs.get(subject, {}).get("alias")
    if not alias:
        return subject
    return beside(subject, alias)


def _ordered(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in _CONFIG_NAMES if document.get(name) not in (None, "")}


# Mode


def mode_in_scope(state: State, subject: str | None) -> str:
    if state.modes.get(None) == "READONLY_OVERRIDE" or state.modes.get(_GLOBAL) == "READONLY_OVERRIDE":
        return "READONLY_OVERRIDE"
    return next((state.modes[each] for each in scope(subject) if each in state.modes), READWRITE)


def is_import(mode: str) -> bool:
    return mode in (IMPORT, "FORWARD")


def require_writable(state: State, subject: str | None) -> None:
    if mode_in_scope(state, subject).startswith("READONLY"):
        context = parse_subject(subject or "").context
        raise errors.not_permitted(f"Subject {subject} in context {context} is in read-only mode")


def mode(state: State, subject: str | None, *, default_to_global: bool) -> dict[str, Any]:
    """GET /mode[/{subject}]."""
    key = settings_key(subject)
    if default_to_global:
        return {"mode": mode_in_scope(state, key)}
    if key in (None, _GLOBAL):
        return {"mode": state.modes.get(key, READWRITE)}
    if key not in state.modes:
        raise errors.mode_not_configured(str(subject))
    return {"mode": state.modes[key]}


def set_mode(state: State, rules: Rules, subject: str | None, document: Any, *, force: bool) -> Decision:
    """PUT /mode[/{subject}]. Import mode needs subjects that are empty, because it brings its own ids."""
    key = settings_key(subject)
    wanted = document.get("mode") if isinstance(document, dict) else None
    new = str(wanted).upper() if wanted is not None else None
    if not isinstance(document, dict) or (new is not None and new not in _MODES):
        raise errors.invalid_mode()
    if new == "FORWARD" and key not in (None, _GLOBAL):
        raise errors.invalid_mode("Forward mode only supported on global level")
    _require_mutable(rules)
    written: list[Record] = []
    if new == IMPORT and mode_in_scope(state, key) != IMPORT and not force:
        written = _cleared(state, key)
    value = None if new is None else {**({"subject": key} if key is not None else {}), "mode": new}
    written.append(Record(Key(records.MODE, key), value))
    return Decision(written, {"mode": new} if new is not None else {})


def _cleared(state: State, key: str | None) -> list[Record]:
    concerned = [versions for subject, versions in state.subjects.items() if is_within(subject, key)]
    versions: list[Version] = [each for found in concerned for each in found.values()]
    if any(not each.deleted for each in versions):
        raise errors.not_permitted("Cannot import since found existing subjects")
    for each in versions:
        if state.referrers(each.place, deleted=True):
            raise errors.reference_exists(each.subject, each.version)
    written = [Record(Key(records.SCHEMA, each.subject, each.version), None) for each in versions]
    if written:
        written.append(records.noop(state.max_ids))
    written.append(Record(Key(records.CLEAR_SUBJECT, key), {"subject": key} if key is not None else {}))
    return written


def delete_mode(state: State, rules: Rules, subject: str | None, *, recursive: bool) -> Decision:
    """DELETE /mode[/{subject}]; `recursive` also takes the subjects of a context, whether or not it has a mode itself.
    Answers what was set.
    """
    key = settings_key(subject)
    _require_mutable(rules)
    if key is not None and key not in state.modes and not recursive:
        raise errors.subject_not_found(str(subject))
    concerned = [key] if key in state.modes else []
    if recursive and (key is None or not parse_subject(key).name):
        concerned += [each for each in state.modes if each is not None and each != key and is_within(each, key)]
    before = state.modes.get(key, READWRITE if key is None else None)
    answer = {"mode": before} if before is not None else {}
    return Decision([Record(Key(records.MODE, each), None) for each in concerned], answer)


def _require_mutable(rules: Rules) -> None:
    if not rules.mode_mutable:
        raise errors.not_permitted("Mode changes are not allowed")
