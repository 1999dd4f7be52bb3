"""How nodes of tables without a store of their own are written out: `map_values` and `filter` of changes.

A change of a table in a lane is always the latest of its row: versioned stores have no lane.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.streams.engine.lane.code import Flow, NotInLane
from headwater.streams.engine.table_filter import TableFilterProcessor
from headwater.streams.engine.table_map_values import TableMapValuesProcessor
from headwater.streams.model.processor import Processor

if TYPE_CHECKING:
    from headwater.streams.engine.lane.compiler import Compiler

Writer = Callable[["Compiler", str, Any, Flow], None]


def _computed(
    compiler: "Compiler", processor: TableMapValuesProcessor | TableFilterProcessor, flow: Flow
) -> tuple[Flow, str, str]:
    """What goes on, and its new and its old value."""
    if flow.old is None:
        raise NotInLane("no table")
    if processor.store_name is not None:
        raise NotInLane("a computed table with a store of its own")
    code = compiler.code
    key, new = compiler.held(flow.key), code.name("new")
    compute = _call(compiler, processor, key)
    code.line(f"{new} = {compute(flow.value)}")
    old = "None"
    if processor.send_old_values and flow.old != "None":
        old = code.name("old")
        code.line(f"{old} = {compute(flow.old)}")
    return replace(flow, key=key, value=new, old=old, raw_value=None), new, old


def _call(
    compiler: "Compiler", processor: TableMapValuesProcessor | TableFilterProcessor, key: str
) -> Callable[[str], str]:
    """Writes what `processor.compute` does with a value; for `map_values`, without calling it to call its function."""
    if isinstance(processor, TableMapValuesProcessor):
        mapper = compiler.code.bind(processor.mapper, "mapper")
        return lambda value: f"None if {value} is None else {mapper}({key}, {value})"
    compute = compiler.code.bind(processor.compute, "compute")
    return lambda value: f"{compute}({key}, {value})"


def _map_values(compiler: "Compiler", node: str, processor: TableMapValuesProcessor, flow: Flow) -> None:
    changed, _, _ = _computed(compiler, processor, flow)
    compiler.forward(node, changed)


def _filter(compiler: "Compiler", node: str, processor: TableFilterProcessor, flow: Flow) -> None:
    if processor.versioned:
        raise NotInLane("versions")
    changed, new, old = _computed(compiler, processor, flow)
    if not processor.send_old_values:
        compiler.forward(node, changed)
        return
    with compiler.code.block(f"if {new} is not None or {old} is not None:"):
        compiler.forward(node, changed)


TABLES: dict[type[Processor], Writer] = {TableMapValuesProcessor: _map_values, TableFilterProcessor: _filter}
