"""What a query that DuckDB carries out may reach: the relations that it is given, names of its own WITH, and ordinary
functions.

DuckDB has more: views and table functions that tell of itself and of its host, that read files and addresses of memory,
and functions for its settings. So a query is carried out only if all that it reads and calls is on a list. What it
reads and calls is told by DuckDB's own parser (as JSON), so that no text means one thing here and another there.

A function is ordinary if its result depends on what it is given alone, as DuckDB's catalog tells, or on the time or on
chance. Macros of DuckDB are if all that they call is.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterable, Iterator, Set
from typing import Any, Final

from headwater.sql.language.errors import SqlError
from headwater.sql.server.duckdb_errors import FUNCTIONS_OF_DUCKDB, UnknownNameError, UnknownSourceError, WrongNameError

TABLE_FUNCTIONS: Final = ("generate_series", "json_each", "json_tree", "range", "unnest")
_RELATIONS: Final = ("BASE_TABLE", "CTE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY")
_QUERIES: Final = ("CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE")
_OF_TIME_AND_CHANCE: Final = frozenset(
    """current_date current_time current_timestamp gen_random_uuid get_current_time get_current_timestamp now random today
    transaction_timestamp uuid uuidv4 uuidv7""".split()  # noqa: SIM905
)
# Written as functions, and in the catalogs of some versions alone.
_ALWAYS_ORDINARY: Final = frozenset(
    """-> cume_dist dense_rank error fill first first_value generate_series lag last last_value lead nth_value ntile
    percent_rank range rank rank_dense row_number unnest""".split()  # noqa: SIM905
)
# They depend on what they are given alone, by the catalog of some versions at least, and tell of DuckDB.
_OF_THE_ENGINE: Final = frozenset(["current_setting", "getvariable", "json_serialize_plan", "vector_type", "version"])


def check_reach(connection: Any, text: str, given: Iterable[str], functions: Set[str]) -> None:
    """Of a query that DuckDB's parser takes, over the relations that are `given` by name, with `functions` of its own.
    Raises SqlError. What the parser does not take is left to be refused by DuckDB, which does nothing of it.
    """
    tree = _parsed(connection, text)
    if not tree.get("error", True):
        _check(tree, frozenset(each.lower() for each in given), ordinary_functions() | functions)
    elif tree.get("error_type") != "parser":
        raise SqlError("This is not a query: only SELECT is carried out here.")


def _check(tree: dict[str, Any], given: frozenset[str], functions: Set[str]) -> None:
    """Goes down the tree with the names that may be read at each place."""
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, given)]
    while waiting:
        node, names = waiting.pop()
        if isinstance(node, list):
            waiting += [(each, names) for each in node]
            continue
        if not isinstance(node, dict):
            continue
        _check_node(node, names, functions)
        if node.get("type") in ("RECURSIVE_CTE_NODE", "CTE_NODE"):
            first = "left" if node["type"] == "RECURSIVE_CTE_NODE" else "query"
            waiting.append((node.pop(first, None), names))  # it does not see the name yet
            names |= {str(node.get("cte_name") or node.get("ctename")).lower()}
        for entry in (node.pop("cte_map", None) or {}).get("map") or ():
            waiting.append((entry["value"], names))
            names |= {str(entry["key"]).lower()}
        waiting += [(each, names) for each in node.values()]


def _check_node(node: dict[str, Any], names: frozenset[str], functions: Set[str]) -> None:
    kind = node.get("type")
    if "modifiers" in node:
        if kind not in _QUERIES:
            raise SqlError("This is not a query: only SELECT is carried out here.")
    elif kind == "BASE_TABLE":
        name = str(node["table_name"])
        if schema := node.get("schema_name") or node.get("catalog_name"):
            raise WrongNameError(f"{schema}.{name} is no stream, table or topic.", name=name, source=schema)
        if name.lower() not in names:
            raise UnknownSourceError(f"{name} does not exist.", name=name)
    elif kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise WrongNameError(
                f"{name}() is not carried out here: a query reads streams, tables and topics.",
                hint=f"Beside these there are {', '.join(f'{each}()' for each in TABLE_FUNCTIONS)}.",
                name=name,
            )
        del node["function"]["function_name"]  # it is not looked for among the functions of expressions
    elif "sample" in node and kind not in _RELATIONS:
        raise SqlError(
            "DESCRIBE, SUMMARIZE and SHOW are not carried out here: a query reads streams, tables and topics."
        )
    elif "function_name" in node and str(node["function_name"]).lower() not in functions:
        name = str(node["function_name"])
        raise UnknownNameError(f"Can't find any functions with the name '{name}'.", hint=FUNCTIONS_OF_DUCKDB, name=name)


@functools.cache
def ordinary_functions() -> frozenset[str]:
    """The names of those of DuckDB, as it tells them; the same for all queries of a process."""
    duckdb = importlib.import_module("duckdb")  # it takes its time, and servers without such queries need none
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            "SELECT function_name, function_type, macro_definition FROM duckdb_functions() "
            "WHERE database_name = 'system' AND schema_name = 'main' AND (function_type IN ('aggregate', 'macro') "
            "OR function_type = 'scalar' AND stability = 'CONSISTENT')"
        ).fetchall()
        known = {name for name, kind, _ in rows if kind != "macro" and not name.startswith("__internal")}
        known = (known - _OF_THE_ENGINE) | _OF_TIME_AND_CHANCE | _ALWAYS_ORDINARY
        macros = {name: _parsed(connection, f"SELECT {body}") for name, kind, body in rows if kind == "macro"}
    while found := {name for name, tree in macros.items() if _is_ordinary(tree, known)} - known:
        known |= found
    return frozenset(known)


def _is_ordinary(macro: dict[str, Any], known: Set[str]) -> bool:
    nodes = list(_nodes(macro))
    reads = any(each.get("type") in ("BASE_TABLE", "TABLE_FUNCTION", "SHOW_REF") for each in nodes)
    calls = {str(each["function_name"]).lower() for each in nodes if "function_name" in each}
    return not macro.get("error", True) and not reads and calls <= known


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _parsed(connection: Any, text: str) -> dict[str, Any]:
    """The tree of a text. It is put together out of DuckDB's rows: a long chain of operators is deeper than Python's
    reader of JSON goes.
    """
    rows = connection.execute(
        "SELECT id, parent, key, type, atom FROM json_tree(json_serialize_sql(?)) ORDER BY id", [text]
    ).fetchall()
    made: dict[int, Any] = {}
    for number, parent, key, kind, atom in rows:
        made[number] = {} if kind == "OBJECT" else [] if kind == "ARRAY" else json.loads(atom or "null")
        if parent is None:
            continue
        above = made[parent]
        if isinstance(above, list):
            above.append(made[number])
        else:
            above[key] = made[number]
    found: dict[str, Any] = made[rows[0][0]]
    return found
