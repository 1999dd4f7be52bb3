"""A client of Confluent's schema registry API: ours, or any other that speaks it. Thread-safe.

Schemas by id never change and are kept; which one is the latest of a subject is kept for `latest.cache.ttl.sec`
seconds.
"""

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from headwater.base.errors import UserError
from headwater.client.schema_registry.errors import SchemaRegistryError
from headwater.client.schema_registry.transport import HttpTransport, Transport
from headwater.client.serialization.lookups import looked_up
from headwater.schemas import ParsedSchema, Reference, SchemaError, SchemaType, StoredSchema, parse
from headwater.schemas.model import REFERENCES_MAX

_KEPT_MAX: Final = 1_000
_SETTINGS: Final = frozenset({
    "url", "basic.auth.user.info", "basic.auth.credentials.source", "bearer.auth.token", "bearer.auth.credentials.source", "ssl.truststore.location", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
    "timeout", "latest.cache.ttl.sec", "cache.capacity",
})  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema that the registry knows. `subject` and `version` are missing where it was asked for by id."""

    id: int
    schema: StoredSchema
    subject: str = ""
    version: int = 0
    guid: uuid.UUID | None = None


class _Kept:
    """The most recently used answers."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]  # type: ignore[no-any-return]
        made = make()
        with self._lock:
            self._entries[key] = made
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        return made

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


class SchemaRegistryClient:
    """`SchemaRegistryClient("http://localhost:8081")`, or with a dict of Confluent's settings (`url`,
    `basic.auth.user.info`, ...).
    """

    def __init__(self, settings: str | Mapping[str, Any], *, transport: Transport | None = None, clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        given = {"url": settings} if isinstance(settings, str) else dict(settings)
        unknown = sorted(given.keys() - _SETTINGS)
        if unknown:
            raise UserError(
                f"A schema registry client has no setting {unknown[0]!r}",
                "",
                f"There are {', '.join(sorted(_SETTINGS))}",
            )
        urls = [each.strip() for each in str(given.get("url", "")).split(",") if each.strip()]
        if not urls and transport is None:
            raise UserError("A schema registry client needs an address", "", "Give url, as http://localhost:8081")
        self._transport = transport or HttpTransport(urls, given, float(given.get("timeout", 30)))
        self._clock = clock
        self._latest_ttl_s = float(given.get("latest.cache.ttl.sec", 60))
        self._kept = _Kept(int(given.get("cache.capacity", _KEPT_MAX)))
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "SchemaRegistryClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- schemas

    def register(self, subject: str, schema: StoredSchema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema under a subject, or find it there: the same schema has the same id."""

        def ask() -> RegisteredSchema:
            answer = self._call("POST", f"/subjects/{_quoted(subject)}/versions?normalize={normalize}", _body(schema))
            self._latest.pop(subject, None)
            return RegisteredSchema(answer["id"], schema, subject, answer.get("version") or 0, _guid(answer))

        return self._kept.get(("register", subject, _key(schema), normalize), ask)

    def lookup(
        self, subject: str, schema: StoredSchema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """The id and version that a schema has under a subject; error 40403 if it is not there."""

        def ask() -> RegisteredSchema:
            path = f"/subjects/{_quoted(subject)}?normalize={normalize}&deleted={deleted}"
            return _registered(self._call("POST", path, _body(schema)))

        return self._kept.get(("lookup", subject, _key(schema), normalize, deleted), ask)

    def schema_by_id(self, schema_id: int, subject: str | None = None, *, serialized: bool = False) -> StoredSchema:
        """`serialized`: Protobuf as a FileDescriptorProto in base64."""
        query = "&".join(
            [
                *([f"subject={quote(subject, safe='')}"] if subject else []),
                *(["format=serialized"] if serialized else []),
            ]
        )
        path = f"/schemas/ids/{schema_id}" + (f"?{query}" if query else "")
        return self._kept.get(("id", path), lambda: _stored(self._call("GET", path)))

    def schema_by_guid(self, guid: uuid.UUID, *, serialized: bool = False) -> StoredSchema:
        path = f"/schemas/guids/{guid}" + ("?format=serialized" if serialized else "")
        return self._kept.get(("guid", path), lambda: _stored(self._call("GET", path)))

    def version(self, subject: str, version: int | str = "latest", *, deleted: bool = False) -> RegisteredSchema:
        path = f"/subjects/{_quoted(subject)}/versions/{version}" + ("?deleted=true" if deleted else "")
        if version == "latest":
            return _registered(self._call("GET", path))
        return self._kept.get(("version", path), lambda: _registered(self._call("GET", path)))

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version, as it was at most `latest.cache.ttl.sec` ago."""
        now = self._clock()
        kept = self._latest.get(subject)
        if kept is None or now - kept[0] > self._latest_ttl_s:
            if len(self._latest) >= _KEPT_MAX:
                self._latest.clear()
            kept = self._latest[subject] = (now, self.version(subject))
        return kept[1]

    def parsed(self, schema: StoredSchema) -> ParsedSchema:
        """A schema with everything that it refers to, parsed."""
        return self._kept.get(("parsed", _key(schema)), lambda: self._parse(schema))

    def _parse(self, schema: StoredSchema) -> ParsedSchema:
        texts: dict[str, str] = {}
        self._collect(schema, texts, set())
        return parse(schema.schema_type, schema.text, texts, stored=True)

    def _collect(self, schema: StoredSchema, texts: dict[str, str], under_way: set[tuple[str, int]]) -> None:
        """The texts of all references, each behind those that it needs itself."""
        for reference in schema.references:
            place = (reference.subject, reference.version)
            if reference.name in texts:
                continue
            if place in under_way or len(under_way) > 100 or len(texts) >= REFERENCES_MAX:
                raise SchemaError(
                    f"the references of a schema lead in a circle, or are too many, at {reference.name!r}"
                )
            under_way.add(place)
            found = self.version(reference.subject, reference.version, deleted=True).schema
            self._collect(found, texts, under_way)
            under_way.discard(place)
            texts[reference.name] = found.text

    # --- subjects, compatibility, configs

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        return list(
            self._call("GET", f"/subjects?subjectPrefix={quote(prefix, safe='')}&deleted={str(deleted).lower()}")
        )

    def versions(self, subject: str) -> list[int]:
        return list(self._call("GET", f"/subjects/{_quoted(subject)}/versions"))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        deleted = self._call("DELETE", f"/subjects/{_quoted(subject)}?permanent={str(permanent).lower()}")
        self._forget()
        return list(deleted)

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        path = f"/subjects/{_quoted(subject)}/versions/{version}?permanent={str(permanent).lower()}"
        deleted = int(self._call("DELETE", path))
        self._forget()
        return deleted

    def _forget(self) -> None:
        self._kept.clear()
        self._latest.clear()

    def incompatibilities(self, subject: str, schema: StoredSchema, version: int | str | None = None) -> list[str]:
        """Why the schema could not be registered now (against one version, or all that the level asks for); empty: it
        could.
        """
        place = f"versions/{version}" if version is not None else "versions"
        answer = self._call("POST", f"/compatibility/subjects/{_quoted(subject)}/{place}?verbose=true", _body(schema))
        if answer.get("is_compatible"):
            return []
        return list(answer.get("messages") or ["the registry did not say why"])

    def compatibility(self, subject: str | None = None) -> str:
        path = f"/config/{_quoted(subject)}?defaultToGlobal=true" if subject else "/config"
        return str(self._call("GET", path)["compatibilityLevel"])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        self._call("PUT", f"/config/{_quoted(subject)}" if subject else "/config", {"compatibility": level})

    def mode(self, subject: str | None = None) -> str:
        path = f"/mode/{_quoted(subject)}?defaultToGlobal=true" if subject else "/mode"
        return str(self._call("GET", path)["mode"])

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> None:
        path = f"/mode/{_quoted(subject)}" if subject else "/mode"
        self._call("PUT", f"{path}?force={str(force).lower()}", {"mode": mode})

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        # Asked for here, or in the thread of whoever may wait: see `serialization.lookups`.
        key = (self, method, path, repr(body))
        status, answer = looked_up(key, lambda: self._transport.request(method, path, body))
        if 200 <= status < 300:
            return answer
        told = answer if isinstance(answer, dict) else {}
        raise SchemaRegistryError(
            f"The schema registry refuses: {told.get('message') or 'no reason given'}",
            f"{method} {path.partition('?')[0]} was answered with {status}",
            status=status,
            error_code=int(told.get("error_code") or 0),
        )


def _quoted(name: str | None) -> str:
    return quote(name or "", safe="")


def _key(schema: StoredSchema) -> Hashable:
    return (schema.schema_type, schema.text, schema.references, repr(schema.metadata), repr(schema.rule_set))


def _body(schema: StoredSchema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.schema_type != SchemaType.AVRO:
        body["schemaType"] = str(schema.schema_type)
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    if schema.metadata is not None:
        body["metadata"] = dict(schema.metadata)
    if schema.rule_set is not None:
        body["ruleSet"] = dict(schema.rule_set)
    return body


def _stored(answer: Mapping[str, Any]) -> StoredSchema:
    references = tuple(
        Reference(each["name"], each["subject"], each["version"]) for each in answer.get("references") or ()
    )
    return StoredSchema(
        answer["schema"],
        SchemaType(answer.get("schemaType") or "AVRO"),
        references,
        answer.get("metadata"),
        answer.get("ruleSet"),
    )


def _registered(answer: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        answer["id"], _stored(answer), answer.get("subject") or "", answer.get("version") or 0, _guid(answer)
    )


def _guid(answer: Mapping[str, Any]) -> uuid.UUID | None:
    return uuid.UUID(answer["guid"]) if answer.get("guid") else None
