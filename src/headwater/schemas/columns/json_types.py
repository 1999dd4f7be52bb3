"""From a JSON Schema to the types of Arrow columns: what the schema says for certain. Pure.

Objects with properties are structs, arrays lists; integers are int64, numbers double, and text stays text, dates too.
What the schema leaves open (several types, an object without properties, a reference to another document, what contains
itself) has no type here: the values say it then.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.json_text import parse_json

if TYPE_CHECKING:
    import pyarrow as pa

_DEPTH_MAX: Final = 50
_FIELDS_MAX: Final = 10_000  # a schema that refers to itself many times over can have any number
_CHOICES: Final = ("oneOf", "anyOf", "allOf")


def json_arrow_schema(text: str) -> "pa.Schema | None":
    """Of the objects that a JSON Schema describes; None if it says nothing about their properties."""
    import pyarrow as pa

    root = parse_json(text)
    found = _Types(root).type_of(root, ())
    return pa.schema(list(found)) if found is not None and pa.types.is_struct(found) else None


class _Types:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._fields_left = _FIELDS_MAX

    def type_of(self, schema: Any, through: tuple[str, ...]) -> "pa.DataType | None":
        import pyarrow as pa

        if not isinstance(schema, dict) or len(through) > _DEPTH_MAX:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return None if reference in through else self.type_of(self._local(reference), (*through, reference))
        inner = _one_choice(schema)
        if inner is not None:
            return self.type_of(inner, (*through, ""))
        if any(word in schema for word in _CHOICES):
            return None
        kind = schema.get("type")
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            kind = others[0] if len(others) == 1 else ""
        if kind == "object" or (kind is None and "properties" in schema):
            return self._struct(schema.get("properties"), (*through, ""))
        if kind == "array":
            items = self.type_of(schema.get("items"), (*through, ""))
            return None if items is None else pa.list_(items)
        plain = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
        return plain.get(str(kind))

    def _struct(self, properties: Any, through: tuple[str, ...]) -> "pa.DataType | None":
        import pyarrow as pa

        fields = []
        for name, each in properties.items() if isinstance(properties, dict) else ():
            self._fields_left -= 1
            found = self.type_of(each, through) if self._fields_left > 0 else None
            if found is not None:
                fields.append(pa.field(name, found))
        return pa.struct(fields) if fields else None

    def _local(self, reference: str) -> Any:
        """`#/definitions/name`; None for what lies elsewhere."""
        if not reference.startswith("#/"):
            return None
        found = self._root
        for part in reference[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found


def _one_choice(schema: dict[str, Any]) -> Any:
    """The one schema of a choice between it and null."""
    for word in _CHOICES:
        choices = schema.get(word)
        if isinstance(choices, list) and "properties" not in schema:
            others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
            return others[0] if len(others) == 1 else None
    return None
