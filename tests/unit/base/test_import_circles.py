"""No module imports, however lazily, one that imports it: what a reader opens has an end. Type hints alone do not count."""

import grimp

# `wire` is not among them: messages are compiled by the codec, in whose schema they are written. Floors that are being built are not
# among them yet.
CHECKED = (
    "base", "records", "log", "metadata", "replication", "controller", "coordinator", "broker", "server", "sim", "testing", "client",
    "cli", "spark", "demo", "schemas", "web", "registry",
)  # fmt: skip


def circles(imported: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected parts of more than one module: what is left when modules without imports, or that nobody imports, go."""
    left = {name: set(others) for name, others in imported.items()}
    while True:
        wanted = set().union(*left.values()) if left else set()
        ends = {name for name, others in left.items() if not others or name not in wanted}
        if not ends:
            break
        left = {name: others - ends for name, others in left.items() if name not in ends}
    found: list[set[str]] = []
    for name in sorted(left):
        if not any(name in circle for circle in found):
            circle = reached(left, name) & {other for other in left if name in reached(left, other)}
            if circle:
                found.append(circle)
    return found


def reached(imported: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        new = imported[todo.pop()] - found
        found |= new
        todo += new
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("headwater", exclude_type_checking_imports=True, cache_dir=None)
    imported = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    packages = tuple(f"headwater.{name}." for name in CHECKED)
    found = [sorted(circle) for circle in circles(imported) if any(name.startswith(packages) for name in circle)]
    assert found == []
