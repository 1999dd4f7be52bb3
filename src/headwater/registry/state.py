"""What the records of `_schemas` add up to: subjects, versions, ids, settings. Pure: records in, state out.

Owned by one registry node, changed only by `apply`, in the order of the log. So every node that has read as far knows
the same. Within a context an id stands for one schema (text, references, metadata and rules), whatever subjects it is
registered under; the guid is a hash of the same, so it is equal in every context and every registry.
"""

import hashlib
import logging
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from headwater.registry import records
from headwater.registry.records import Key
from headwater.registry.subjects import DEFAULT_CONTEXT, beside, is_within, parse_subject

logger = logging.getLogger("headwater.registry")

AVRO: Final = "AVRO"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class SchemaReference:
    name: str
    subject: str
    version: int

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """What makes two schemas the same one. Metadata and rules are in their canonical form."""

    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    def guid(self) -> str:
        """MD5 of the parts one after the other, as Confluent's registry has it, written as a UUID."""
        digest = hashlib.md5(self.text.encode("utf-8"), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode() + reference.subject.encode())
            digest.update(reference.version.to_bytes(4, "big", signed=True))
        for part in (self.metadata, self.rule_set):
            for piece in _hashed_parts(part):
                digest.update(piece)
        return str(uuid.UUID(bytes=digest.digest()))


def _hashed_parts(value: Any) -> Iterator[bytes]:
    """Names and values of maps whose names are data, values only of those whose names are fields; `disabled` as a byte
    1.
    """
    match value:
        case None | False:
            return
        case True:
            yield b"\x01"
        case str():
            yield value.encode()
        case list():
            for each in value:
                yield from _hashed_parts(each)
        case Mapping():
            for name, each in value.items():
                if name in ("tags", "properties", "params") and isinstance(each, Mapping):
                    for key, inner in each.items():
                        yield str(key).encode()
                        yield from _hashed_parts(inner)
                else:
                    yield from _hashed_parts(each)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject, as it was registered."""

    subject: str
    version: int
    id: int
    content: SchemaContent
    guid: str
    deleted: bool = False
    timestamp_ms: int = -1

    @property
    def place(self) -> tuple[str, int]:
        return self.subject, self.version


class _Ahead(MutableMapping[K, V]):
    """A table with changes of its own over another, which stays as it is. A value that is a table itself is copied when
    somebody asks for it, since it may be changed then.
    """

    __slots__ = ("_base", "_gone", "_own")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._own: dict[K, V] = {}
        self._gone: set[K] = set()

    def __getitem__(self, key: K) -> V:
        if key not in self._own:
            if key in self._gone:
                raise KeyError(key)
            value = self._base[key]
            copied: Any = dict(value) if isinstance(value, dict) else value
            self._own[key] = copied
        return self._own[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._own[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._own.pop(key, None)
        self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (key not in self._gone and key in self._base)

    def __iter__(self) -> Iterator[K]:
        yield from [key for key in self._base if key not in self._gone]
        yield from [key for key in self._own if key not in self._base]

    def __len__(self) -> int:
        return sum(1 for _ in self)


Places = dict[tuple[str, int], None]  # subjects and versions, in their order


@dataclass(slots=True)
class State:
    subjects: MutableMapping[str, dict[int, Version]] = field(default_factory=dict)
    by_id: MutableMapping[tuple[str, int], Places] = field(default_factory=dict)  # by context and id
    by_guid: MutableMapping[str, Places] = field(default_factory=dict)
    referenced_by: MutableMapping[tuple[str, int], Places] = field(default_factory=dict)
    configs: MutableMapping[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: MutableMapping[str | None, str] = field(default_factory=dict)
    contexts: MutableMapping[str, None] = field(default_factory=dict)
    max_ids: MutableMapping[str, int] = field(default_factory=dict)

    def ahead(self) -> "State":
        """A state to apply records to that are not written yet. This one stays as it is, and must stay so as long as
        the other is used.
        """
        return State(*(_Ahead(getattr(self, each.name)) for each in fields(self)))

    # Questions

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Version | None:
        found = self.subjects.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Oldest first."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def latest(self, subject: str, *, deleted: bool = False) -> Version | None:
        found = self.versions(subject, deleted=deleted)
        return found[-1] if found else None

    def with_id(self, context: str, id_: int) -> list[Version]:
        """Every version that has the id in this context; a deleted one too."""
        return [self._at(place) for place in self.by_id.get((context, id_), {})]

    def with_guid(self, guid: str) -> list[Version]:
        return [self._at(place) for place in self.by_guid.get(guid, {})]

    def referrers(self, place: tuple[str, int], *, deleted: bool = False) -> list[Version]:
        found = [self._at(each) for each in self.referenced_by.get(place, {})]
        return [each for each in found if deleted or not each.deleted]

    def next_id(self, context: str) -> int:
        return self.max_ids.get(context, 0) + 1

    def _at(self, place: tuple[str, int]) -> Version:
        return self.subjects[place[0]][place[1]]

    # Changes

    def apply(self, key_data: bytes | None, value_data: bytes | None, timestamp_ms: int = -1) -> None:
        """One record of the log. What is damaged or unknown is left out, with a warning: the rest must still be
        served.
        """
        key = decode_key_or_warn(key_data)
        if key is None:
            return
        try:
            self.apply_record(key, records.decode_value(value_data), timestamp_ms)
        except records.UNREADABLE as problem:
            logger.warning("event=record-ignored key=%.200r reason=%.200r", key_data, str(problem))

    def apply_record(self, key: Key, value: dict[str, Any] | None, timestamp_ms: int = -1) -> None:
        match key.keytype:
            case records.SCHEMA:
                assert key.subject is not None
                assert key.version is not None
                self._apply_schema(key.subject, key.version, value, timestamp_ms)
            case records.CONFIG:
                _set_or_remove(self.configs, key.subject, value and _settings(value))
            case records.MODE:
                _set_or_remove(self.modes, key.subject, value and str(value["mode"]).upper())
            case records.CONTEXT:
                _set_or_remove(self.contexts, str(key.subject), value and {})
            case records.DELETE_SUBJECT:
                if value is not None:
                    self._delete_subject(str(key.subject), int(value["version"]))
            case records.CLEAR_SUBJECT:
                if value is not None:
                    self._clear_subjects(key.subject)
            case records.NOOP:
                for context, max_id in ((value or {}).get(records.MAX_IDS) or {}).items():
                    self.max_ids[context] = max(self.max_ids.get(context, 0), int(max_id))

    def _apply_schema(self, subject: str, version: int, value: dict[str, Any] | None, timestamp_ms: int) -> None:
        if value is None:
            self._remove(subject, version)
            return
        content = content_of(value)
        new = Version(
            subject, version, int(value["id"]), content, content.guid(), bool(value.get("deleted")), timestamp_ms
        )
        context = parse_subject(subject).context
        others = [each for each in self.with_id(context, new.id) if each.place != new.place]
        if others and others[0].content.text != content.text:
            logger.error("event=duplicate-id id=%d subject=%.200r version=%d note='ignored'", new.id, subject, version)
            return
        self._remove(subject, version)
        self.subjects.setdefault(subject, {})[version] = new
        self.by_id.setdefault((context, new.id), {})[new.place] = None
        self.by_guid.setdefault(new.guid, {})[new.place] = None
        for reference in content.references:
            place = (beside(subject, reference.subject), reference.version)
            self.referenced_by.setdefault(place, {})[new.place] = None
        self.max_ids[context] = max(self.max_ids.get(context, 0), new.id)
        if context != DEFAULT_CONTEXT:
            self.contexts.setdefault(context)

    def _remove(self, subject: str, version: int) -> None:
        old = self.subjects.get(subject, {}).pop(version, None)
        if old is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        _discard(self.by_id, (parse_subject(subject).context, old.id), old.place)
        _discard(self.by_guid, old.guid, old.place)
        for reference in old.content.references:
            _discard(self.referenced_by, (beside(subject, reference.subject), reference.version), old.place)

    def _delete_subject(self, subject: str, up_to: int) -> None:
        versions = self.subjects.get(subject, {})
        for number, each in versions.items():
            if number <= up_to and not each.deleted:
                versions[number] = replace(each, deleted=True)

    def _clear_subjects(self, scope: str | None) -> None:
        """Those of a scope are empty for an import: what is deleted softly is gone for good."""
        for subject in [each for each in self.subjects if is_within(each, scope)]:
            for each in self.versions(subject, deleted=True):
                if each.deleted:
                    self._remove(subject, each.version)


def decode_key_or_warn(data: bytes | None) -> Key | None:
    key = records.decode_key(data) if data is not None else None
    if key is None:
        logger.warning("event=record-ignored key=%.200r reason='a kind that is not known here'", data)
    return key


def content_of(value: Mapping[str, Any]) -> SchemaContent:
    """Of the value of a SCHEMA record."""
    return SchemaContent(
        text=str(value["schema"]),
        schema_type=value.get("schemaType") or AVRO,
        references=tuple(
            SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in value.get("references") or ()
        ),
        metadata=value.get("metadata") or None,
        rule_set=value.get("ruleSet") or None,
    )


def value_of(version: Version) -> dict[str, Any]:
    """The value of its SCHEMA record."""
    content = version.content
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    value["schemaType"] = content.schema_type
    if content.references:
        value["references"] = [each.document() for each in content.references]
    if content.metadata:
        value["metadata"] = content.metadata
    if content.rule_set:
        value["ruleSet"] = content.rule_set
    return {**value, "schema": content.text, "deleted": version.deleted}


def _settings(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != "subject"}


def _set_or_remove(table: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _discard(table: MutableMapping[Any, Places], key: Any, place: tuple[str, int]) -> None:
    places = table.get(key)
    if places is not None:
        places.pop(place, None)
        if not places:
            del table[key]
