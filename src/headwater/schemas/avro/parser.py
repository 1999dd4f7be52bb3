"""From Avro's JSON to types: names are resolved, defaults looked at, and what is wrong is told with its place.

The names that a schema defines are collected as they come, so a name is known only after its definition, as in Avro's
own parsers; a record is known within itself. The JSON has been limited in depth before, and so is the recursion here.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.schemas.avro.defaults import default_problem
from headwater.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)
from headwater.schemas.json_text import parse_json
from headwater.schemas.model import NAME_LENGTH_MAX, SchemaError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED: Final = frozenset({"type", "name", "namespace", "doc", "aliases"})
_RESERVED: Final = {
    "record": _NAMED | {"fields"},
    "error": _NAMED | {"fields"},
    "enum": _NAMED | {"symbols", "default"},
    "fixed": _NAMED | {"size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_FIELD_RESERVED: Final = {"name", "type", "doc", "default", "order", "aliases"}
_FIXED_SIZE_MAX: Final = 2**31 - 1


def parse_type(text: str, names: dict[str, Named], faults: list[str] | None = None) -> AvroType:
    """Parse one schema; the names that it defines are added to `names`. Where `faults` is a list, what can be read all
    the same is added to it and not raised: a default that does not fit its type, a name with other characters.
    """
    return _Parser(names, faults).parse(parse_json(text), "", "")


class _Parser:
    def __init__(self, names: dict[str, Named], faults: list[str] | None) -> None:
        self._names = names
        self._faults = faults

    def _fault(self, path: str, why: str) -> None:
        problem = _error(path, why)
        if self._faults is None:
            raise problem
        if not self._faults:  # the first is enough to tell
            self._faults.append(str(problem))

    def parse(self, node: Any, namespace: str, path: str) -> AvroType:
        if isinstance(node, str):
            return self._reference(node, namespace, path)
        if isinstance(node, list):
            return self._union(node, namespace, path)
        if not isinstance(node, dict):
            raise _error(path, f"a type is a name, an object or a list of types, not {_shown(node)}")
        kind = node.get("type")
        if kind is None:
            raise _error(path, 'an object that describes a type needs a "type"')
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, f"{path}/type")
        if kind in PRIMITIVES:
            return Primitive(kind, {key: value for key, value in node.items() if key != "type"})
        if kind == "array":
            return Array(
                "array", _properties(node, kind), self.parse(_needed(node, "items", path), namespace, f"{path}/items")
            )
        if kind == "map":
            return Map(
                "map", _properties(node, kind), self.parse(_needed(node, "values", path), namespace, f"{path}/values")
            )
        if kind in _RESERVED:
            return self._named(node, kind, namespace, path)
        if isinstance(kind, str):
            return self._reference(kind, namespace, path)
        raise _error(path, f'"type" is a name, an object or a list of types, not {_shown(kind)}')

    def _reference(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name, {})  # type: ignore[arg-type]
        found = (
            self._names.get(name)
            if "." in name or not namespace
            else self._names.get(f"{namespace}.{name}", self._names.get(name))
        )
        if found is None:
            raise _error(path, f"{_shown(name)} is not a type that has been defined before")
        return found

    def _union(self, node: list[Any], namespace: str, path: str) -> Union:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for index, branch in enumerate(node):
            here = f"{path}/{index}"
            parsed = self.parse(branch, namespace, here)
            if isinstance(parsed, Union):
                raise _error(here, "a union must not be directly within a union")
            key = parsed.name if isinstance(parsed, Named) else parsed.kind
            if key in seen:
                raise _error(here, f"{_shown(key)} is in the union twice")
            seen.add(key)
            branches.append(parsed)
        return Union("union", {}, tuple(branches))

    def _named(self, node: dict[str, Any], kind: str, namespace: str, path: str) -> Named:
        name = self._full_name(node, namespace, path)
        if name in self._names:
            raise _error(path, f"{_shown(name)} is defined twice")
        own_namespace = name.rpartition(".")[0]
        aliases = _aliases(node, own_namespace, path)
        doc = _doc(node)
        properties = _properties(node, kind)
        if kind == "fixed":
            self._names[name] = fixed = Fixed("fixed", properties, name, aliases, doc, _size(node, path))
            return fixed
        if kind == "enum":
            self._names[name] = enum = Enum("enum", properties, name, aliases, doc, *self._symbols(node, path))
            return enum
        record = Record("record", properties, name, aliases, doc, is_error=kind == "error")
        self._names[name] = record
        self._fields(record, node, own_namespace, path)
        return record

    def _fields(self, record: Record, node: dict[str, Any], namespace: str, path: str) -> None:
        nodes = _needed(node, "fields", path)
        if not isinstance(nodes, list):
            raise _error(path, f'"fields" is a list, not {_shown(nodes)}')
        fields = []
        for index, each in enumerate(nodes):
            parsed = self._field(each, namespace, f"{path}/fields/{index}")
            if parsed.name in record.by_name:
                raise _error(f"{path}/fields/{index}", f"the field {_shown(parsed.name)} is in {record.name} twice")
            record.by_name[parsed.name] = parsed
            fields.append(parsed)
        record.fields = tuple(fields)

    def _field(self, node: Any, namespace: str, path: str) -> Field:
        if not isinstance(node, dict):
            raise _error(path, f"a field is an object, not {_shown(node)}")
        name = _needed(node, "name", path)
        self._check_name(name, path)
        field_type = self.parse(_needed(node, "type", path), namespace, f"{path}/type")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
            raise _error(path, f'"order" is ascending, descending or ignore, not {_shown(order)}')
        default = node.get("default", NO_DEFAULT)
        if default is not NO_DEFAULT:
            problem = default_problem(field_type, default)
            if problem is not None:
                self._fault(
                    f"{path}/default", f"the default of the field {_shown(name)} does not fit its type: {problem}"
                )
        aliases = node.get("aliases", [])
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            raise _error(path, f'"aliases" is a list of names, not {_shown(aliases)}')
        properties = {key: value for key, value in node.items() if key not in _FIELD_RESERVED}
        return Field(name, field_type, default, tuple(dict.fromkeys(aliases)), order.lower(), _doc(node), properties)

    def _check_name(self, name: Any, path: str) -> None:
        if not isinstance(name, str) or not name:
            raise _error(path, f"{_shown(name)} is not a name")
        if not _NAME.fullmatch(name):
            self._fault(path, f"{_shown(name)} is not a name: letters, digits and _, not beginning with a digit")

    def _full_name(self, node: Mapping[str, Any], namespace: str, path: str) -> str:
        name = _needed(node, "name", path)
        if not isinstance(name, str):
            raise _error(path, f"{_shown(name)} is not a name")
        if "." not in name:
            own = node.get("namespace", namespace)
            if own is not None and not isinstance(own, str):
                raise _error(path, f'"namespace" is text, not {_shown(own)}')
            name = f"{own}.{name}" if own else name
        if name.startswith("."):
            name = name[1:]
        if len(name) > NAME_LENGTH_MAX:
            raise _error(path, f"the full name {_shown(name)} has more than {NAME_LENGTH_MAX:,} characters")
        for part in name.split("."):
            self._check_name(part, path)
        if name in PRIMITIVES:
            raise _error(path, f"{_shown(name)} is the name of one of Avro's own types")
        return name

    def _symbols(self, node: Mapping[str, Any], path: str) -> tuple[tuple[str, ...], str | None, frozenset[str]]:
        symbols = _needed(node, "symbols", path)
        if not isinstance(symbols, list):
            raise _error(path, f'"symbols" is a list, not {_shown(symbols)}')
        for symbol in symbols:
            self._check_name(symbol, path)
        symbol_set = frozenset(symbols)
        if len(symbol_set) < len(symbols):
            raise _error(path, "a symbol is in the enum twice")
        default = node.get("default")
        if default is not None and (not isinstance(default, str) or default not in symbol_set):
            raise _error(path, f"the default {_shown(default)} is not a symbol of the enum")
        return tuple(symbols), default, symbol_set


def _error(path: str, why: str) -> SchemaError:
    return SchemaError(f"not an Avro schema: at {path or '/'}: {why}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _needed(node: Mapping[str, Any], key: str, path: str) -> Any:
    if key not in node:
        raise _error(path, f'"{key}" is missing')
    return node[key]


def _properties(node: Mapping[str, Any], kind: str) -> dict[str, Any]:
    reserved = _RESERVED[kind]
    return {key: value for key, value in node.items() if key not in reserved}


def _doc(node: Mapping[str, Any]) -> str | None:
    doc = node.get("doc")
    return doc if isinstance(doc, str) else None


def _aliases(node: Mapping[str, Any], namespace: str, path: str) -> tuple[str, ...]:
    aliases = node.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise _error(path, f'"aliases" is a list of names, not {_shown(aliases)}')
    return tuple(dict.fromkeys(alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in aliases))


def _size(node: Mapping[str, Any], path: str) -> int:
    size = _needed(node, "size", path)
    if type(size) is not int or not 0 <= size <= _FIXED_SIZE_MAX:
        raise _error(path, f'"size" is a whole number from 0 to {_FIXED_SIZE_MAX}, not {_shown(size)}')
    return size
