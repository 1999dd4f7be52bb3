"""Three texts of one Avro schema, each for another purpose. Pure.

canonical      what the registry stores and compares: as Java's `Schema.toString()`; names qualified only where they
               must be, attributes in Java's order, types of referenced schemas by their names
normalized     full names everywhere and attributes sorted, so that schemas that mean the same have one text
parsing form   Avro's Parsing Canonical Form: what decides how bytes are read and nothing else; fingerprints are of it
"""

from collections.abc import Iterable
from typing import Any

from headwater.schemas.avro.types import PRIMITIVES, Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from headwater.schemas.json_text import compact_json


def canonical_text(avro_type: AvroType, known: Iterable[str] = ()) -> str:
    """As Java writes it; types whose names are `known` come from references and are not written out."""
    return compact_json(_Canonical(known).node(avro_type, ""))


def normalized_text(avro_type: AvroType, known: Iterable[str] = ()) -> str:
    return compact_json(_Normalized(known).node(avro_type, ""))


def parsing_canonical_form(avro_type: AvroType) -> str:
    return compact_json(_ParsingForm(()).node(avro_type, ""))


class _Canonical:
    """A walk over types that writes each named type once; `namespace` is that of the enclosing named type."""

    def __init__(self, known: Iterable[str]) -> None:
        self._written = set(known)

    def node(self, avro_type: AvroType, namespace: str) -> Any:
        if isinstance(avro_type, Union):
            return [self.node(branch, namespace) for branch in avro_type.branches]
        if isinstance(avro_type, Named):
            if avro_type.name in self._written:
                return self.reference(avro_type.name, namespace)
            self._written.add(avro_type.name)
            return self.definition(avro_type, namespace)
        if isinstance(avro_type, Array):
            return {"type": "array", "items": self.node(avro_type.items, namespace)} | self.extra(avro_type.properties)
        if isinstance(avro_type, Map):
            return {"type": "map", "values": self.node(avro_type.values, namespace)} | self.extra(avro_type.properties)
        properties = self.extra(avro_type.properties)
        return {"type": avro_type.kind} | properties if properties else avro_type.kind

    def reference(self, name: str, namespace: str) -> str:
        own, _, simple = name.rpartition(".")
        return simple if own == namespace and simple not in PRIMITIVES else name

    def extra(self, properties: dict[str, Any]) -> dict[str, Any]:
        return properties

    def definition(self, named: Named, namespace: str) -> dict[str, Any]:
        node: dict[str, Any] = {"type": "error" if isinstance(named, Record) and named.is_error else named.kind}
        node["name"] = named.simple_name
        if named.namespace != namespace:
            node["namespace"] = named.namespace
        if named.doc is not None:
            node["doc"] = named.doc
        if isinstance(named, Record):
            node["fields"] = [self.field(each, named.namespace) for each in named.fields]
        elif isinstance(named, Enum):
            node["symbols"] = list(named.symbols)
            if named.default is not None:
                node["default"] = named.default
        elif isinstance(named, Fixed):
            node["size"] = named.size
        node |= self.extra(named.properties)
        if named.aliases:
            node["aliases"] = [self.reference(alias, named.namespace) for alias in named.aliases]
        return node

    def field(self, each: Field, namespace: str) -> dict[str, Any]:
        node: dict[str, Any] = {"name": each.name, "type": self.node(each.type, namespace)}
        if each.doc is not None:
            node["doc"] = each.doc
        if each.has_default:
            node["default"] = each.default
        if each.order != "ascending":
            node["order"] = each.order
        if each.aliases:
            node["aliases"] = list(each.aliases)
        return node | self.extra(each.properties)


class _Normalized(_Canonical):
    def reference(self, name: str, namespace: str) -> str:
        del namespace
        return name

    def extra(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {key: _sorted(properties[key]) for key in sorted(properties)}

    def definition(self, named: Named, namespace: str) -> dict[str, Any]:
        node = super().definition(named, namespace)
        node.pop("namespace", None)
        if named.doc == "":
            del node["doc"]
        node = {"name": named.name, "type": node.pop("type")} | node | {"name": named.name}
        if named.aliases:
            node["aliases"] = sorted(named.aliases)
        return node

    def field(self, each: Field, namespace: str) -> dict[str, Any]:
        node = super().field(each, namespace)
        if each.has_default:
            node["default"] = _sorted(each.default)
        if each.aliases:
            node["aliases"] = sorted(each.aliases)
        return node


class _ParsingForm(_Canonical):
    def reference(self, name: str, namespace: str) -> str:
        del namespace
        return name

    def extra(self, properties: dict[str, Any]) -> dict[str, Any]:
        del properties
        return {}

    def definition(self, named: Named, namespace: str) -> dict[str, Any]:
        node: dict[str, Any] = {
            "name": named.name,
            "type": "error" if isinstance(named, Record) and named.is_error else named.kind,
        }
        if isinstance(named, Record):
            node["fields"] = [{"name": each.name, "type": self.node(each.type, namespace)} for each in named.fields]
        elif isinstance(named, Enum):
            node["symbols"] = list(named.symbols)
        elif isinstance(named, Fixed):
            node["size"] = named.size
        return node


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
