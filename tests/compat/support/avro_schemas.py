"""Random Avro schemas from a seed, others that nearly fit them, and values of them."""

import copy
import random
from typing import Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 8,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}


class Schemas:
    """Schemas, and others that nearly fit them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.named: list[str] = []
        self.count = 0

    def schema(self) -> Any:
        self.named, self.count = [], 0
        return self.type(3)

    def type(self, depth: int, union: bool = True) -> Any:
        choice = self.random.random()
        if depth == 0 or choice < 0.35:
            return self.random.choice(PRIMITIVES)
        if choice < 0.4 and self.named:
            return self.random.choice(self.named)
        if choice < 0.45:
            return {"type": "int", "logicalType": "date", "of": "mine"}
        if choice < 0.65:
            return self.record(depth)
        if choice < 0.72:
            return {"type": "array", "items": self.type(depth - 1)}
        if choice < 0.79:
            return {"type": "map", "values": self.type(depth - 1)}
        if choice < 0.88:
            return self.union(depth) if union else "int"
        if choice < 0.94:
            symbols = self.random.sample("ABCD", self.random.randint(1, 4))
            return (
                self.name("enum")
                | {"symbols": symbols}
                | ({"default": symbols[0]} if self.random.random() < 0.3 else {})
            )
        return self.name("fixed") | {"size": self.random.randint(1, 3)}

    def name(self, kind: str) -> dict[str, Any]:
        self.count += 1
        named: dict[str, Any] = {"type": kind, "name": f"N{self.count}"}
        if self.random.random() < 0.3:
            named["namespace"] = self.random.choice(["p", "p.q", ""])
        if self.random.random() < 0.2:
            named["aliases"] = self.random.sample(["N1", "N2", "q.N3", "Other"], 2)
        if self.random.random() < 0.1:
            named["doc"] = "für Menschen"
        return named

    def record(self, depth: int) -> dict[str, Any]:
        record = self.name("record")
        if "namespace" not in record and self.random.random() < 0.5:
            record["namespace"] = "p"
        full = f"{record['namespace']}.{record['name']}" if record.get("namespace") else None
        fields = []
        for name in self.random.sample("abcdef", self.random.randint(0, 4)):
            field: dict[str, Any] = {"name": name, "type": self.type(depth - 1)}
            if isinstance(field["type"], str) and field["type"] in DEFAULTS and self.random.random() < 0.4:
                field["default"] = DEFAULTS[field["type"]]
            if self.random.random() < 0.15:
                field["aliases"] = [self.random.choice("xyz")]
            if self.random.random() < 0.1:
                field |= {"order": "ignore", "tag": [1]}
            fields.append(field)
        if full and self.random.random() < 0.4:
            fields.append({"name": "again", "type": ["null", full]})
        if full:
            self.named.append(full)
        return record | {"fields": fields}

    def union(self, depth: int) -> list[Any]:
        branches: dict[str, Any] = {}
        for _ in range(self.random.randint(1, 4)):
            branch = self.type(depth - 1, union=False)
            key = branch if isinstance(branch, str) else str(branch.get("name", branch["type"]))
            branches.setdefault(key, branch)
        return list(branches.values())

    def near(self, schema: Any) -> Any:
        """The same, changed in a few places."""
        changed = copy.deepcopy(schema)
        for _ in range(self.random.randint(0, 3)):
            places = list(_places(changed, None, None))
            node, parent, key = self.random.choice(places)
            self._change(node, parent, key)
        return changed if not isinstance(changed, list) or changed else "null"

    def _change(self, node: Any, parent: Any, key: Any) -> None:
        draw = self.random.random
        if isinstance(node, str) and parent is not None and node in PRIMITIVES:
            parent[key] = self.random.choice(PRIMITIVES)
        elif isinstance(node, list):
            if draw() < 0.5 and node:
                self.random.shuffle(node)
            elif "string" not in node:
                node.append("string")
        elif isinstance(node, dict) and "fields" in node:
            if draw() < 0.4 and node["fields"]:
                node["fields"].pop(self.random.randrange(len(node["fields"])))
            elif draw() < 0.6 and node["fields"]:
                field = self.random.choice(node["fields"])
                field["aliases"] = [field["name"]]
                field["name"] = "r"
            else:
                new = {"name": "n", "type": "int"} | ({"default": 1} if draw() < 0.5 else {})
                node["fields"].append(new)
        elif isinstance(node, dict) and "symbols" in node:
            node["symbols"] = [*dict.fromkeys([*node["symbols"], "Z"])]
        elif isinstance(node, dict) and "size" in node:
            node["size"] += 1
        elif isinstance(node, dict) and "name" in node:
            node["aliases"] = [node["name"]]


def _places(node: Any, parent: Any, key: Any) -> Any:
    yield node, parent, key
    if isinstance(node, list):
        for index, branch in enumerate(node):
            yield from _places(branch, node, index)
    elif isinstance(node, dict):
        for name in ("items", "values"):
            if name in node:
                yield from _places(node[name], node, name)
        for field in node.get("fields", ()):
            yield from _places(field["type"], field, "type")


class Values:
    """Values of a schema. Records within themselves end by and by."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, schema: Any, names: dict[str, Any], depth: int = 0) -> Any:
        draw = self.random
        if isinstance(schema, list):
            branch = schema[0] if depth > 6 else draw.choice(schema)
            return self.value(branch, names, depth + 1)
        if isinstance(schema, str):
            if schema in names:
                return self.value(names[schema], names, depth + 1)
            return self._primitive(schema)
        kind = schema["type"]
        if kind in ("record", "enum", "fixed") and schema.get("namespace"):
            names[f"{schema['namespace']}.{schema['name']}"] = schema
        if kind == "record":
            return {field["name"]: self.value(field["type"], names, depth + 1) for field in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"], names, depth + 1) for _ in range(draw.randint(0, 3))]
        if kind == "map":
            return {f"k{index}é": self.value(schema["values"], names, depth + 1) for index in range(draw.randint(0, 3))}
        if kind == "enum":
            return draw.choice(schema["symbols"])
        if kind == "fixed":
            return draw.randbytes(schema["size"])
        return draw.randint(-(2**31), 2**31 - 1) if "logicalType" not in schema else draw.randint(0, 10_000)

    def _primitive(self, name: str) -> Any:
        draw = self.random
        match name:
            case "null":
                return None
            case "boolean":
                return draw.random() < 0.5
            case "int":
                return draw.choice([0, -1, 2**31 - 1, -(2**31), draw.randint(-1000, 1000)])
            case "long":
                return draw.choice([0, -1, 2**63 - 1, -(2**63), draw.randint(-(2**40), 2**40)])
            case "float":
                return draw.choice([0.0, -1.5, float(2**100)])
            case "double":
                return draw.choice([0.0, -1e300, draw.random()])
            case "bytes":
                return draw.randbytes(draw.randint(0, 5))
        return "".join(draw.choices("aé€😀", k=draw.randint(0, 4)))
