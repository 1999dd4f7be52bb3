"""`stream.split()`: branches by predicate, in the order in which they are named."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.streams.dsl.functions import check_callable, with_key
from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.stream_branch import StreamBranch
from headwater.streams.plan.graph import ProcessorGraphNode
from headwater.streams.topology.name_rules import check_name

if TYPE_CHECKING:
    from headwater.streams.dsl.stream import Stream


class BranchedStream:
    """`branch` for each predicate, then `default_branch` or `no_default_branch`, which give the streams by name."""

    def __init__(self, source: "Stream", name: str | None) -> None:
        self._source = source
        self._name = source.graph.name_or_new(name, "KSTREAM-BRANCH-")
        self._predicates: list[Callable[[Any, Any], Any]] = []
        self._children: list[str] = []
        self._branches: dict[str, Stream] = {}
        predicates, children = self._predicates, self._children
        self._node = ProcessorGraphNode(self._name, lambda: StreamBranch(predicates, children))
        source.graph.add(source.node, self._node)

    def branch(
        self,
        predicate: Callable[..., Any],
        name: str | None = None,
        then: "Callable[[Stream], Stream | None] | None" = None,
    ) -> "BranchedStream":
        """Records that no earlier branch took and for which the predicate holds. `then(stream)` may go on with them at
        once.
        """
        self._predicates.append(with_key(predicate, "branch"))
        self._add(name, len(self._predicates), then)
        return self

    def default_branch(
        self, name: str | None = None, then: "Callable[[Stream], Stream | None] | None" = None
    ) -> "dict[str, Stream]":
        """What no branch took."""
        self._add(name, 0, then)
        return self._branches

    def no_default_branch(self) -> "dict[str, Stream]":
        """What no branch took is left out."""
        return self._branches

    def _add(self, name: str | None, index: int, then: "Callable[[Stream], Stream | None] | None") -> None:
        if then is not None:
            check_callable(then, "branch(then=)")
        child = f"{self._name}{index if name is None else name}"
        check_name(child, "a branch")
        self._children.append(child)
        self._source.graph.new_name(child)  # Kafka Streams takes a number here and does not show it
        node = ProcessorGraphNode(child, PassThrough)
        self._source.graph.add(self._node, node)
        stream: Stream | None = self._source.after(node)
        if then is not None:
            assert stream is not None
            stream = then(stream)
        if stream is not None:
            self._branches[child] = stream
