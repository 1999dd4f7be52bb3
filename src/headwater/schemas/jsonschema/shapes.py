"""What a JSON Schema is about: one type, a combination of schemas, an enumeration, anything, nothing. Comparing goes by
that.

A schema with several such things at once (a type and an enum) is a combination of all of them, and a list of types is a
combination of any, so that a comparison meets one thing at a time. Shapes are made lazily, once for each schema, and
several threads may ask for them: nobody but their maker sees those that are not complete.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema.documents import Documents, reference_of
from headwater.schemas.model import SchemaError

Kind = Literal[
    "any",
    "never",
    "string",
    "number",
    "boolean",
    "null",
    "object",
    "array",
    "enum",
    "const",
    "not",
    "condition",
    "combined",
]

_OBJECT: Final = frozenset({"properties", "required", "minProperties", "maxProperties", "additionalProperties", "patternProperties", "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties"})  # fmt: skip
_ARRAY: Final = frozenset({"items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"})  # fmt: skip
_STRING: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
_NUMBER: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_BY_KEYWORD: Final[tuple[tuple[frozenset[str], Kind], ...]] = (
    (_OBJECT, "object"),
    (_ARRAY, "array"),
    (_STRING, "string"),
    (_NUMBER, "number"),
)
_CRITERIA: Final = ("allOf", "anyOf", "oneOf")
_SHAPES_DEEP_MAX: Final = 120  # as deep as a comparison goes


@dataclass(eq=False, slots=True)
class Shape:
    kind: Kind
    node: dict[str, Any] = field(default_factory=dict)
    integer: bool = False
    criterion: str = ""  # of a combination: allOf, anyOf or oneOf
    parts: list["Shape"] = field(default_factory=list)
    source: Any = None  # what it was made of

    @property
    def key(self) -> str:
        """The same text: the same schema. Only where shapes are told apart: it is as long as the schema."""
        return compact_json(self.source)

    def distinct_parts(self) -> list["Shape"]:
        return list({part.key: part for part in self.parts}.values())


class Shapes:
    """The shapes of one parsed schema."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._made: dict[int, Shape] = {}
        self._any = Shape("any", source=True)
        self._never = Shape("never", source=False)

    def of(self, node: Any) -> Shape:
        node = self.followed(node)
        found = self.known(node)
        if found is not None:
            return found
        making = _Making(self)
        making.of(node)
        for identity, shape in making.made.items():
            self._made.setdefault(identity, shape)  # another thread may have been first: there is one of each
        return self._made[id(node)]

    def known(self, node: Any) -> Shape | None:
        if isinstance(node, bool):
            return self._any if node else self._never
        return self._made.get(id(node))

    def followed(self, node: Any) -> Any:
        """A reference with other demands beside it counts as both of them, since draft 2019-09."""
        if isinstance(node, dict) and reference_of(node) is not None and not self._demands(node):
            return self.documents.follow(node)
        return node

    def _demands(self, node: dict[str, Any]) -> bool:
        if isinstance(node.get("$ref"), str) and "definitions" in node and "$defs" not in node:
            return False
        if node.get("type") or any(key in node for key in ("enum", "const", "not", "if", *_CRITERIA)):
            return True
        return any(node.keys() & group for group, _ in _BY_KEYWORD)


class _Making:
    """Of the shapes that one needs which contain each other: they are complete together, or none is kept."""

    def __init__(self, shapes: Shapes) -> None:
        self.made: dict[int, Shape] = {}
        self._shapes, self._documents = shapes, shapes.documents
        self._depth = 0

    def of(self, node: Any) -> Shape:
        node = self._shapes.followed(node)
        found = self._shapes.known(node) or self.made.get(id(node))
        if found is not None:
            return found
        if self._depth >= _SHAPES_DEEP_MAX:
            raise SchemaError(
                f"the schemas are too deep to be compared: more than {_SHAPES_DEEP_MAX} combined inside each other"
            )
        made = self.made[id(node)] = Shape("any", node, source=node)
        self._depth += 1
        self._fill(made, node)
        self._depth -= 1
        return made

    def _fill(self, shape: Shape, node: dict[str, Any]) -> None:
        parts = self._typed(node)
        if "enum" in node:
            parts.append(Shape("enum", node, source=["enum", node["enum"]]))
        if "const" in node:
            parts.append(Shape("const", node, source=["const", node["const"]]))
        for criterion in _CRITERIA:
            if criterion in node:
                inner = [self.of(each) for each in node[criterion]]
                parts.append(
                    Shape(
                        "combined",
                        node,
                        criterion=criterion,
                        parts=inner,
                        source=[criterion, node[criterion]],
                    )
                )
        if "not" in node:
            parts.append(Shape("not", node, source=["not", node["not"]]))
        if "if" in node:
            parts.append(Shape("condition", node, source=[node["if"], node.get("then"), node.get("else")]))
        reference = reference_of(node)
        if reference is not None:
            parts.append(self.of(self._documents.resolve(node, reference)))
        if len(parts) == 1:
            only = parts[0]
            shape.kind, shape.integer, shape.criterion, shape.parts = (
                only.kind,
                only.integer,
                only.criterion,
                only.parts,
            )
        elif parts:
            shape.kind, shape.criterion, shape.parts = "combined", "allOf", parts

    def _typed(self, node: dict[str, Any]) -> list[Shape]:
        types = node.get("type")
        if isinstance(types, list):
            types = list(dict.fromkeys(types))  # one that is named twice means nothing more
        if isinstance(types, list) and len(types) > 1:
            inner = [self._of_type(name, node) for name in types]
            return [Shape("combined", node, criterion="anyOf", parts=inner, source=["type", node])]
        if types:
            return [self._of_type(types[0] if isinstance(types, list) else types, node)]
        return [Shape(kind, node, source=[kind, node]) for keywords, kind in _BY_KEYWORD if node.keys() & keywords]

    def _of_type(self, name: Any, node: dict[str, Any]) -> Shape:
        kind: Kind = "number" if name == "integer" else name
        return Shape(kind, node, integer=name == "integer", source=[name, node])
