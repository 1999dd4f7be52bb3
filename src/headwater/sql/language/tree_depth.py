"""How deep the tree of a statement may be. What walks over it calls itself for each level, and so does what is compiled
of it; so a chain that is too long is refused when it is read, before anything is made of it.
"""

from typing import Any, Final

from headwater.sql.language import tree
from headwater.sql.language.errors import Position, SqlSyntaxError

LEVELS_MAX: Final = 200  # of operators and calls: a chain of n operators has n levels
JOINS_MAX: Final = 50  # in one query: a record goes through the nodes of all of them


def too_long(position: Position) -> SqlSyntaxError:
    return SqlSyntaxError(
        f"Operators in one chain, or within each other, may be at most {LEVELS_MAX}.",
        why="Each operator of a chain such as a + b + c takes the result of the one before",
        hint="Group the chain with brackets: (a + b) + (c + d).",
        position=position,
    )


def check_depth(statement: tree.Statement) -> None:
    """Raises SqlSyntaxError."""
    waiting: list[tuple[Any, int, int]] = [(statement, 0, 0)]
    while waiting:
        value, level, joins = waiting.pop()
        if isinstance(value, tuple):
            waiting += [(each, level, joins) for each in value]
        elif isinstance(value, tree.Node):
            level += isinstance(value, tree.Expression)
            joins += isinstance(value, tree.Join)
            if joins > JOINS_MAX:
                raise SqlSyntaxError(f"A query may have at most {JOINS_MAX} joins.", position=value.position)
            if level > LEVELS_MAX:
                raise too_long(value.position)
            waiting += [(getattr(value, name), level, joins) for name in value.__dataclass_fields__]
