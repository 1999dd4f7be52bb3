"""A schema registry in memory, as the transport of a client."""

from typing import Any

from headwater.client.schema_registry.errors import SchemaRegistryError


class Memory:
    """A registry in memory; `gone` is one that does not answer."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.gone = False

    def request(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self.gone:
            raise SchemaRegistryError("No schema registry answers")
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            return 200, self.schemas[int(parts[2]) - 1]
        subject = self.subjects.setdefault(parts[1], [])
        if method == "POST":
            number = self.schemas.index(body) + 1 if body in self.schemas else 0
            if len(parts) == 2:
                found = {"id": number, "version": subject.index(number) + 1, "subject": parts[1], **body} if number in subject else None  # fmt: skip
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            return 200, {"id": self.register(parts[1], body)}
        return 200, {"id": subject[-1], "version": len(subject), **self.schemas[subject[-1] - 1]}

    def register(self, subject: str, body: dict[str, Any]) -> int:
        if body not in self.schemas:
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def close(self) -> None:
        pass
