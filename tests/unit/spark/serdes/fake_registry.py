"""A registry in memory, with what planning and tasks ask of it."""

from typing import Any

from headwater.client.schema_registry import RegisteredSchema, SchemaRegistryError
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema, parse


class FakeRegistry:
    def __init__(self) -> None:
        self.by_id: list[tuple[str, StoredSchema]] = []
        self.refuses: SchemaRegistryError | None = None
        self.asked = 0

    def add(self, subject: str, text: str, schema_type: SchemaType = SchemaType.AVRO) -> int:
        self.by_id.append((subject, StoredSchema(text, schema_type)))
        return len(self.by_id)

    def _ask(self) -> None:
        self.asked += 1
        if self.refuses is not None:
            raise self.refuses

    def schema_by_id(self, schema_id: int, subject: str | None = None) -> StoredSchema:
        del subject
        self._ask()
        if not 1 <= schema_id <= len(self.by_id):
            raise SchemaRegistryError("no such schema", status=404)
        return self.by_id[schema_id - 1][1]

    def _versions(self, subject: str) -> list[RegisteredSchema]:
        ids = [number for number, (name, _) in enumerate(self.by_id, 1) if name == subject]
        return [RegisteredSchema(i, self.by_id[i - 1][1], subject, n) for n, i in enumerate(ids, 1)]

    def version(self, subject: str) -> RegisteredSchema:
        self._ask()
        found = self._versions(subject)
        if not found:
            raise SchemaRegistryError("no such subject", status=404)
        return found[-1]

    def lookup(self, subject: str, schema: StoredSchema, *, deleted: bool = False) -> RegisteredSchema:
        del deleted
        self._ask()
        for each in self._versions(subject):
            if each.schema == schema:
                return each
        raise SchemaRegistryError("no such schema there", status=404)

    def register(self, subject: str, schema: StoredSchema) -> RegisteredSchema:
        self._ask()
        if all(each.schema != schema for each in self._versions(subject)):
            self.add(subject, schema.text, schema.schema_type)
        return self.lookup(subject, schema)

    def parsed(self, schema: StoredSchema) -> ParsedSchema:
        return parse(schema.schema_type, schema.text)


def registry() -> Any:
    """Untyped: it stands for a SchemaRegistryClient."""
    return FakeRegistry()
