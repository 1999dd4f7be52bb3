"""JSON Schema documents and what `$ref` means in them. Nothing is ever fetched: a reference is found here or is an
error.

A document is known by its own `$id` and by the name under which another schema refers to it. `Documents` is built by
one parse and not changed afterwards. Base addresses change at each nested `$id`, so every schema's own base is kept, by
identity.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from headwater.schemas.model import SchemaError

_INDEX: Final = re.compile(r"[0-9]{1,9}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_META: Final = re.compile(r"https?://json-schema\.org/(draft-0[3467]/(hyper-)?schema|draft/20(19-09|20-12)/.*)")
_REFERENCES_IN_A_ROW_MAX: Final = 100
_ADDRESS_LENGTH_MAX: Final = 2_000  # every schema within repeats what stands before its own
_SINGLE: Final = ("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "oneOf", "items", "prefixItems")
_MAPS: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def subschemas(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas right inside a schema, with their places."""
    for key in _SINGLE:
        if isinstance(node.get(key), dict | bool):
            yield key, node[key]
    for key in _LISTS:
        if isinstance(node.get(key), list):
            yield from ((f"{key}/{index}", each) for index, each in enumerate(node[key]))
    for key in _MAPS:
        if isinstance(node.get(key), dict):
            yield from ((f"{key}/{name}", each) for name, each in node[key].items() if isinstance(each, dict | bool))


def join(base: str, reference: str) -> str:
    """A reference, without its fragment, seen from `base`: as RFC 3986 has it for what schemas use."""
    if len(base) > _ADDRESS_LENGTH_MAX or len(reference) > _ADDRESS_LENGTH_MAX:
        raise SchemaError(
            f"not a JSON Schema: the address {(reference or base)[:100]!r}... has more than {_ADDRESS_LENGTH_MAX:,} characters"
        )
    if not reference:
        return base
    if _SCHEME.match(reference):
        return reference
    scheme = _SCHEME.match(base)
    if reference.startswith("//"):
        return (scheme[0] if scheme else "") + reference
    authority_end = base.find("/", scheme.end() + 2) if scheme and base.startswith("//", scheme.end()) else -1
    if reference.startswith("/"):
        return (base[:authority_end] if authority_end >= 0 else base if scheme else "") + reference
    folder = base[: base.rfind("/") + 1] if "/" in base[scheme.end() + 2 if scheme else 0 :] else ""
    while reference.startswith("./"):
        reference = reference[2:]
    while reference.startswith("../") and folder:
        reference = reference[3:]
        folder = folder[: folder.rstrip("/").rfind("/") + 1]
    return folder + reference


class Documents:
    def __init__(self) -> None:
        self._by_address: dict[str, Any] = {}
        self._bases: dict[int, str] = {}  # identity of a schema -> its base address
        self._kept: list[Any] = []  # keeps identities unique

    def add(self, document: Any, name: str) -> None:
        """Take in a document and everything in it that has an address of its own."""
        self._kept.append(document)
        self._by_address.setdefault(name, document)
        pending = [(document, name)]
        while pending:
            node, base = pending.pop()
            if not isinstance(node, dict) or id(node) in self._bases:
                continue
            own = node.get("$id", node.get("id"))
            if isinstance(own, str) and own and "$ref" not in node:
                address, _, fragment = own.partition("#")
                base = join(base, address)
                self._by_address.setdefault(f"{base}#{fragment}" if fragment else base, node)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self._by_address.setdefault(f"{base}#{node[key]}", node)
            if node.get("$recursiveAnchor") is True:
                self._by_address.setdefault(f"{base}#", node)
            self._bases[id(node)] = base
            pending += [(inner, base) for _, inner in subschemas(node)]

    def base(self, node: dict[str, Any]) -> str:
        return self._bases.get(id(node), "")

    def resolve(self, node: dict[str, Any], reference: str) -> Any:
        """What `reference` in `node` stands for, or SchemaError."""
        address, _, fragment = reference.partition("#")
        base = self._bases.get(id(node), "")
        for candidate in dict.fromkeys((join(base, address), address or base)):
            if fragment and not fragment.startswith("/") and f"{candidate}#{fragment}" in self._by_address:
                return self._by_address[f"{candidate}#{fragment}"]
            if candidate in self._by_address and (not fragment or fragment.startswith("/")):
                return self._pointed(self._by_address[candidate], candidate, fragment, reference)
            if _META.fullmatch(candidate):
                return True  # a schema that describes schemas: anything, as far as evolution goes
        raise SchemaError(
            f"not a JSON Schema: the reference {reference[:200]!r} names no schema that is here; nothing is fetched"
        )

    def _pointed(self, document: Any, address: str, pointer: str, reference: str) -> Any:
        node = document
        for part in pointer.split("/")[1:]:
            key = _unescaped(part)
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and _INDEX.fullmatch(key) and int(key) < len(node):
                node = node[int(key)]
            else:
                raise SchemaError(f"not a JSON Schema: the reference {reference[:200]!r} points to nothing")
        if not isinstance(node, dict | bool):
            raise SchemaError(
                f"not a JSON Schema: the reference {reference[:200]!r} points to something that is not a schema"
            )
        if isinstance(node, dict) and id(node) not in self._bases:
            self.add(node, address)  # under a keyword that nobody knows: it has no address yet
        return node

    def follow(self, node: Any) -> Any:
        """Through references that stand alone, to the schema meant."""
        for _ in range(_REFERENCES_IN_A_ROW_MAX):
            if not isinstance(node, dict):
                return node
            reference = reference_of(node)
            if reference is None:
                return node
            node = self.resolve(node, reference)
        raise SchemaError("not a JSON Schema: references lead to references without an end")


def reference_of(node: dict[str, Any]) -> str | None:
    for key in ("$ref", "$dynamicRef", "$recursiveRef"):
        if isinstance(node.get(key), str):
            return str(node[key])
    return None


def _unescaped(part: str) -> str:
    part = re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), part)
    return part.replace("~1", "/").replace("~0", "~")
