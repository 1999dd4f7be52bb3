"""Deletion: of a version, of a subject, of a context. Soft first, for good only after that; never what others refer to.
Pure.
"""

from headwater.registry import errors, records
from headwater.registry.decisions.settings import require_writable
from headwater.registry.decisions.steps import Decision
from headwater.registry.records import Key, Record
from headwater.registry.state import State, Version, value_of
from headwater.registry.subjects import DEFAULT_CONTEXT, parse_context, parse_subject


def delete_version(state: State, subject: str, version: int | None, *, permanent: bool) -> Decision:
    """DELETE /subjects/{subject}/versions/{version}; no version is the latest. Answers its number."""
    if not state.versions(subject, deleted=True):
        raise errors.subject_not_found(subject)
    found = (
        state.latest(subject, deleted=permanent) if version is None else state.version(subject, version, deleted=True)
    )
    if found is None:
        raise errors.version_not_found(-1 if version is None else version)
    if found.deleted and not permanent:
        raise errors.version_soft_deleted(subject, found.version)
    require_writable(state, subject)
    if [each for each in state.referrers(found.place, deleted=permanent) if each.place != found.place]:
        raise errors.reference_exists(subject, found.version)
    if permanent and not found.deleted:
        raise errors.version_not_soft_deleted(subject, found.version)
    key = Key(records.SCHEMA, subject, found.version)
    if not permanent:
        return Decision([Record(key, {**value_of(found), "deleted": True})], found.version)
    is_last = len(state.versions(subject, deleted=True)) == 1
    written = [Record(key, None), *(_settings_of(state, subject) if is_last else []), records.noop(state.max_ids)]
    return Decision(written, found.version)


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
    """DELETE /subjects/{subject}; answers the numbers of its versions."""
    every = state.versions(subject, deleted=True)
    undeleted = [each for each in every if not each.deleted]
    if not every:
        raise errors.subject_not_found(subject)
    if not permanent and not undeleted:
        raise errors.subject_soft_deleted(subject)
    require_writable(state, subject)
    concerned: list[Version] = every if permanent else undeleted
    for each in concerned:
        others = [found for found in state.referrers(each.place, deleted=permanent) if found.subject != subject]
        if others:
            raise errors.reference_exists(subject, each.version)
    if permanent and undeleted:
        raise errors.subject_not_soft_deleted(subject)
    numbers = [each.version for each in concerned]
    if not permanent:
        # Up to the highest of all: the record of an earlier deletion goes with compaction, and an import may have
        # brought a lower version since.
        value = {"subject": subject, "version": every[-1].version}
        return Decision([Record(Key(records.DELETE_SUBJECT, subject), value)], numbers)
    written = [Record(Key(records.SCHEMA, subject, number), None) for number in reversed(numbers)]
    return Decision([*written, *_settings_of(state, subject), records.noop(state.max_ids)], numbers)


def _settings_of(state: State, subject: str) -> list[Record]:
    """A subject that is gone for good has no settings either."""
    kinds = ((records.MODE, subject in state.modes), (records.CONFIG, subject in state.configs))
    return [Record(Key(keytype, subject), None) for keytype, is_set in kinds if is_set]


def delete_context(state: State, text: str) -> Decision:
    """DELETE /contexts/{context}."""
    context = parse_context(text)
    if any(parse_subject(subject).context == context for subject in state.subjects):
        raise errors.context_not_empty(text)
    if context == DEFAULT_CONTEXT or context not in state.contexts:
        return Decision([], None)
    return Decision([Record(Key(records.CONTEXT, context), None)], None)
