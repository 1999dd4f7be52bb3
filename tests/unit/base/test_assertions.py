"""`python -O` drops assertions: what a program does must not stand inside of one."""

import ast
from pathlib import Path

import headwater

_PACKAGE = Path(headwater.__file__).parent
_EFFECTS = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)
_ONLY_LOOK = {
    *{"isinstance", "issubclass", "len", "all", "any", "type", "join", "sub", "get", "startswith", "monotonic"},
    *{"due_in_ms", "has_string_keys"},
}


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "?")


def _acts(node: ast.AST) -> bool:
    return isinstance(node, _EFFECTS) or (isinstance(node, ast.Call) and _name(node) not in _ONLY_LOOK)


def test_no_assertion_does_something() -> None:
    acting = [
        f"{path.relative_to(_PACKAGE)}:{node.lineno}: assert {ast.unparse(node.test)}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and any(map(_acts, ast.walk(node.test)))
    ]
    assert acting == [], "under `python -O` none of this happens: " + "; ".join(acting)
