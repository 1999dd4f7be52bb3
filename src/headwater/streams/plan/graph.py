"""The logical graph: a node per call of the DSL, numbered and named as Kafka Streams numbers and names them.

`building.py` makes a `Topology` of it. A node that somebody else needs (a join, a window) is a `GraphNode` with a
`write` of its own, in the file of its operator. Owned by one App.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.streams.model.processor import Processor, Supplier
from headwater.streams.topology.name_rules import check_optional_name
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import Topology

if TYPE_CHECKING:
    from headwater.streams.plan.frames import FrameTopic


class GraphNode:
    """A step of the logical graph. Subclasses say in `write` what it becomes."""

    key_changing = False
    value_changing = False
    merge = False
    refuses_versioned = False
    null_key_relaxed_join = False  # a left or outer join that keeps records without a key

    def __init__(self, name: str) -> None:
        self.name = name
        self.build_priority = 0
        self.parents: list[GraphNode] = []
        self.children: list[GraphNode] = []
        self.written = False
        self.output_versioned: bool | None = None
        self.grace_ms: int | None = None  # of a windowed aggregation

    @property
    def parent_names(self) -> list[str]:
        return [parent.output_name for parent in self.parents]

    @property
    def output_name(self) -> str:
        """The topology's node that children of this one hang on."""
        return self.name

    def add_child(self, child: "GraphNode") -> None:
        if child not in self.children:
            self.children.append(child)
        if self not in child.parents:
            child.parents.append(self)

    def enable_versioned_semantics(self, versioned: bool, parent: str) -> None:
        """Told of each parent whether it is a versioned table; joins leave out what comes out of order from one."""

    def write(self, topology: Topology) -> None:
        raise NotImplementedError(type(self).__name__)


class RootNode(GraphNode):
    """The parent of all sources. It has no place in the topology."""

    def write(self, topology: Topology) -> None:
        """Nothing."""


class ProcessorGraphNode(GraphNode):
    """One processor, with the stores it makes and those it is connected to."""

    def __init__(
        self, name: str, supplier: Supplier, store_names: Iterable[str] = (), stores: Iterable[StorePlan] = ()
    ) -> None:
        super().__init__(name)
        self.supplier = supplier
        self.store_names = list(store_names)
        self.stores = list(stores)

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self.supplier, self.parent_names)
        for name in self.store_names:
            topology.connect(self.name, name)
        for store in self.stores:
            topology.add_store(store, [self.name])


class StateStoreNode(GraphNode):
    """A store that was added by hand, for processors to name."""

    def __init__(self, store: StorePlan) -> None:
        super().__init__(f"{store.name}-store")
        self.store = store

    def write(self, topology: Topology) -> None:
        topology.add_store(self.store, [])


_ROOT: Final = "root"


class Graph:
    """All nodes of an application, and the counter behind their names."""

    def __init__(self) -> None:
        self.root: GraphNode = RootNode(_ROOT)
        self._index = 0
        self._priority = 0
        self.copartitioned: list[set[str]] = []  # names of source nodes whose topics must have equally many partitions
        self.frame_inputs: dict[str, FrameTopic] = {}  # topics that DataFrames are written to, by name
        self.changed = 0  # counts what was added, so that a topology built before is known to be old

    def new_name(self, prefix: str) -> str:
        """`KSTREAM-FILTER-` becomes `KSTREAM-FILTER-0000000003`."""
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        return name

    def new_store_name(self, prefix: str) -> str:
        return self.new_name(f"{prefix}STATE-STORE-")

    def name_or_new(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """A given name takes a number, too, so that the names of others do not hang on it."""
        check_optional_name(name, "an operator")
        generated = self.new_name(prefix)
        return generated if name is None else f"{name}{suffix}"

    def add(self, parent: GraphNode | Iterable[GraphNode], child: GraphNode) -> None:
        parents = [parent] if isinstance(parent, GraphNode) else list(parent)
        for one in parents:
            one.add_child(child)
            child.build_priority = self._priority
            self._priority += 1
        self.changed += 1


def check_supplier(supplier: object, what: str = "processor") -> Supplier:
    """A processor must be made anew for each task: a class or a function is given, not an object. A function is called
    twice, as by Kafka Streams, to see that it does not give the same one again.
    """
    return _tried(supplier, what)[0]


def supplier_with_stores(supplier: object) -> tuple[Supplier, list[StorePlan]]:
    """The same, with the stores that it brings along, as Kafka Streams' `ProcessorSupplier.stores()` does: its own
    `stores`, or those of the class that it makes processors of.
    """
    made, of = _tried(supplier, "processor")
    return made, _stores_of(made if hasattr(made, "stores") else of)


def _tried(supplier: object, what: str) -> tuple[Supplier, type]:
    """With the class of what it makes."""
    hint = f"give the class, or a function that returns a new {what}"
    if isinstance(supplier, Processor) or not callable(supplier):
        raise UserError(f"{supplier!r} cannot make a {what}", "each task needs one of its own", hint)
    made: Supplier = supplier
    if isinstance(supplier, type):
        return made, supplier
    if not _takes_nothing(supplier):
        raise UserError(f"{supplier!r} cannot make a {what}", "it is called without arguments", hint)
    first = supplier()
    if first is None:
        raise UserError(f"{supplier!r} makes no {what}", "it returned None", hint)
    if first is supplier():
        raise UserError(f"{supplier!r} returns the same {what} again", "each task needs one of its own", hint)
    return made, type(first)


def _stores_of(owner: object) -> list[StorePlan]:
    named: Any = getattr(owner, "stores", ())
    if callable(named) and _takes_nothing(named):
        named = named()
    named = () if named is None else named
    stores = list(named) if isinstance(named, Iterable) and not isinstance(named, str) else [named]
    for store in stores:
        if not isinstance(store, StorePlan):
            raise UserError(
                f"The stores of {owner!r} have {store!r}, which is no store",
                "they are a list of stores, or a method of the class that returns one",
                'stores = [key_value_store("name")]; those that app.add_store(...) adds are named in process(...)',
            )
    return stores


def _takes_nothing(function: Callable[..., object]) -> bool:
    import inspect

    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # of a builtin, which does not tell
        return True
    return True


def check_store_names(stores: object, operator: str) -> list[str]:
    """Of `stores=[...]`: a name alone would be taken letter by letter."""
    if isinstance(stores, str) or not isinstance(stores, Iterable):
        raise UserError(f"{operator} needs a list of names in stores=", f"it was given {stores!r}", 'stores=["name"]')
    names = list(stores)
    for name in names:
        if not isinstance(name, str):
            raise UserError(
                f"{operator} names the store {name!r}", "it is no name", "app.add_store(...) adds it, stores= names it"
            )
    return names
