"""The schema registry, as formats see it; and one within the process, for tests and for statements that are only tried.

Subjects are Confluent's: `<topic>-key` and `<topic>-value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from headwater.schemas import ParsedSchema, SchemaError, SchemaType, StoredSchema, parse

AVRO_NAMESPACE: Final = "io.confluent.ksql.avro_schemas"  # of the records that are made, as in ksqlDB


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema that the registry knows, parsed with everything that it refers to."""

    id: int
    schema: ParsedSchema


class Schemas(Protocol):
    """Raises SqlError where the registry refuses, and `ClusterFailure` where it does not answer."""

    def latest(self, subject: str, /) -> Registered | None: ...

    def by_id(self, schema_id: int, /) -> ParsedSchema | None: ...

    def register(self, subject: str, schema: StoredSchema, /) -> Registered: ...


@dataclass(slots=True)
class MemorySchemas:
    """A registry without compatibility rules. The same schema has the same id under every subject."""

    _by_id: dict[int, ParsedSchema] = field(default_factory=dict)
    _subjects: dict[str, list[int]] = field(default_factory=dict)

    def latest(self, subject: str, /) -> Registered | None:
        versions = self._subjects.get(subject)
        return Registered(versions[-1], self._by_id[versions[-1]]) if versions else None

    def by_id(self, schema_id: int, /) -> ParsedSchema | None:
        return self._by_id.get(schema_id)

    def register(self, subject: str, schema: StoredSchema, /) -> Registered:
        return self.add(subject, schema.schema_type, schema.text)

    def add(
        self,
        subject: str,
        schema_type: SchemaType,
        text: str,
        references: Sequence[tuple[str, str]] = (),
        schema_id: int | None = None,
    ) -> Registered:
        """`references` are the names and texts of what the schema refers to. Raises SchemaError."""
        parsed = parse(schema_type, text, dict(references))
        known = next((each for each, other in self._by_id.items() if _same(parsed, other)), None)
        number = schema_id or known or max(self._by_id, default=0) + 1
        if schema_id in self._by_id and known != schema_id:
            raise SchemaError(f"the id {schema_id} is another schema's")
        self._by_id[number] = parsed
        versions = self._subjects.setdefault(subject, [])
        if number in versions:
            versions.remove(number)
        versions.append(number)
        return Registered(number, parsed)


def _same(one: ParsedSchema, other: ParsedSchema) -> bool:
    return one.schema_type is other.schema_type and one.canonical == other.canonical
