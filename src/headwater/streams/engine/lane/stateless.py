"""How nodes without state are written out: each writes what happens to a record, and hands it on."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.streams.engine.lane.code import Flow, NotInLane
from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.stream_branch import StreamBranch
from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map import StreamFlatMap, StreamMap, StreamSelectKey, as_pair
from headwater.streams.engine.stream_map_values import StreamFlatMapValues, StreamMapValues
from headwater.streams.engine.stream_peek import StreamPeek
from headwater.streams.engine.table_to_stream import TableToStream
from headwater.streams.model.processor import Processor

if TYPE_CHECKING:
    from headwater.streams.engine.lane.compiler import Compiler

Writer = Callable[["Compiler", str, Any, Flow], None]


def call(compiler: "Compiler", function: Callable[..., Any], flow: Flow) -> str:
    """An expression that calls `f(key, value)`, or the function of the value alone that it stands for."""
    if flow.old is not None:
        raise NotInLane("a function that sees changes of a table")
    of_value = getattr(function, "of_value", None)
    if of_value is not None:
        return f"{compiler.code.bind(of_value, 'function')}({flow.value})"
    return f"{compiler.code.bind(function, 'function')}({flow.key}, {flow.value})"


def _filter(compiler: "Compiler", node: str, processor: StreamFilter, flow: Flow) -> None:
    test = call(compiler, processor.predicate, flow)
    with compiler.code.block(f"if not {test}:" if processor.negated else f"if {test}:"):
        compiler.forward(node, flow)


def _map_values(compiler: "Compiler", node: str, processor: StreamMapValues, flow: Flow) -> None:
    value = compiler.code.name("value")
    compiler.code.line(f"{value} = {call(compiler, processor.mapper, flow)}")
    compiler.forward(node, flow.with_value(value))


def _flat_map_values(compiler: "Compiler", node: str, processor: StreamFlatMapValues, flow: Flow) -> None:
    value = compiler.code.name("value")
    with compiler.code.block(f"for {value} in {call(compiler, processor.mapper, flow)}:"):
        compiler.forward(node, flow.with_value(value))


def _map(compiler: "Compiler", node: str, processor: StreamMap, flow: Flow) -> None:
    key, value = compiler.code.name("key"), compiler.code.name("value")
    pair = compiler.code.bind(as_pair, "as_pair")
    compiler.code.line(f"{key}, {value} = {pair}({call(compiler, processor.mapper, flow)}, 'map')")
    compiler.forward(node, flow.with_key(key).with_value(value))


def _flat_map(compiler: "Compiler", node: str, processor: StreamFlatMap, flow: Flow) -> None:
    key, value, one = compiler.code.name("key"), compiler.code.name("value"), compiler.code.name("pair")
    pair = compiler.code.bind(as_pair, "as_pair")
    with compiler.code.block(f"for {one} in {call(compiler, processor.mapper, flow)}:"):
        compiler.code.line(f"{key}, {value} = {pair}({one}, 'flat_map')")
        compiler.forward(node, flow.with_key(key).with_value(value))


def _select_key(compiler: "Compiler", node: str, processor: StreamSelectKey, flow: Flow) -> None:
    key = compiler.code.name("key")
    compiler.code.line(f"{key} = {call(compiler, processor.selector, flow)}")
    compiler.forward(node, flow.with_key(key))


def _peek(compiler: "Compiler", node: str, processor: StreamPeek, flow: Flow) -> None:
    compiler.code.line(call(compiler, processor.action, flow))
    if processor.goes_on:
        compiler.forward(node, flow)


def _branch(compiler: "Compiler", node: str, processor: StreamBranch, flow: Flow) -> None:  # noqa: ARG001
    word = "if"
    for predicate, child in zip(processor.predicates, processor.children, strict=False):
        with compiler.code.block(f"{word} {call(compiler, predicate, flow)}:"):
            compiler.forward_to(child, flow)
        word = "elif"
    if len(processor.children) > len(processor.predicates):
        with compiler.code.block("else:" if word == "elif" else "if True:"):
            compiler.forward_to(processor.children[-1], flow)


def _pass_through(compiler: "Compiler", node: str, processor: PassThrough, flow: Flow) -> None:  # noqa: ARG001
    compiler.forward(node, flow)


def _to_stream(compiler: "Compiler", node: str, processor: TableToStream, flow: Flow) -> None:  # noqa: ARG001
    if flow.old is None:
        raise NotInLane("no table")
    compiler.forward(node, replace(flow, old=None))


STATELESS: dict[type[Processor], Writer] = {
    StreamFilter: _filter,
    StreamMapValues: _map_values,
    StreamFlatMapValues: _flat_map_values,
    StreamMap: _map,
    StreamFlatMap: _flat_map,
    StreamSelectKey: _select_key,
    StreamPeek: _peek,
    StreamBranch: _branch,
    PassThrough: _pass_through,
    TableToStream: _to_stream,
}
