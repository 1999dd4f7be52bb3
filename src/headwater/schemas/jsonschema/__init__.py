"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12: parsing, references, canonical form, compatibility."""

from collections.abc import Mapping
from typing import Any, Final

from headwater.schemas.json_text import compact_json, parse_json
from headwater.schemas.jsonschema.compatibility import differences
from headwater.schemas.jsonschema.documents import Documents
from headwater.schemas.jsonschema.kinds import LENIENT
from headwater.schemas.jsonschema.shapes import Shapes
from headwater.schemas.jsonschema.validity import check_document
from headwater.schemas.model import Incompatibility, ParsedSchema, SchemaError, SchemaType, Sides

_SETS: Final = ("required", "type")  # lists whose order means nothing


class JsonSchema(ParsedSchema):
    schema_type = SchemaType.JSON

    def __init__(self, document: Any, documents: Documents, known: Mapping[str, Any]) -> None:
        self.document = document
        self.known = known  # the documents that it refers to, and theirs, by name
        self._canonical = compact_json(document)
        self.documents = documents  # what its references mean
        self._shapes = Shapes(documents)

    def __reduce__(self) -> tuple[Any, ...]:
        """Nodes are known by their identity, which they have in this process only."""
        return _made, (self.document, self.known)

    @property
    def canonical(self) -> str:
        return self._canonical

    def normalized(self) -> str:
        return compact_json(_sorted(self.document))

    @property
    def name(self) -> str | None:
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    def differences(self, writer: ParsedSchema, sides: Sides) -> list[Incompatibility]:
        assert isinstance(writer, JsonSchema)
        return differences((self._shapes, self.document), (writer._shapes, writer.document), sides)

    def lenient_differences(self, writer: ParsedSchema, sides: Sides) -> list[Incompatibility]:
        assert isinstance(writer, JsonSchema)
        return differences((self._shapes, self.document), (writer._shapes, writer.document), sides, LENIENT)

    def top_level_fields(self) -> frozenset[str]:
        properties = self.document.get("properties") if isinstance(self.document, dict) else None
        return frozenset(properties) if isinstance(properties, dict) else frozenset()

    def name_problem(self) -> str:
        kept = sorted(name for name in self.top_level_fields() if name.startswith("$$"))
        return f"#/properties/{kept[0]}: the name of a property cannot begin with $$" if kept else ""


def parse_json_schema(text: str, references: Mapping[str, ParsedSchema | str]) -> JsonSchema:
    known: dict[str, Any] = {}
    for name, reference in references.items():
        if isinstance(reference, str):
            known.setdefault(name, parse_json(reference))
        elif isinstance(reference, JsonSchema):
            known.setdefault(name, reference.document)
            for inner_name, document in reference.known.items():
                known.setdefault(inner_name, document)
        else:
            raise SchemaError(f"the reference {name!r} is not a JSON Schema but {reference.schema_type}")
    made = _made(parse_json(text), known)
    check_document(made.document, made.documents)
    return made


def _made(document: Any, known: Mapping[str, Any]) -> JsonSchema:
    documents = Documents()
    documents.add(document, "")
    for name, each in known.items():
        documents.add(each, name)
    return JsonSchema(document, documents, known)


def _sorted(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _in_order(key, node[key]) for key in sorted(node)}
    return [_sorted(each) for each in node] if isinstance(node, list) else node


def _in_order(key: str, value: Any) -> Any:
    if key in _SETS and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return _sorted(value)
