"""A topology that has changed since the former run: what of its state the new one would lose. Pure.

A store is found again by its name, which names its changelog topic. Names that were generated
(`KSTREAM-AGGREGATE-STATE-STORE-0000000003`) carry the operator's number, and change when an operator is added before
it: then the new store begins empty, or reads what another operator has kept. So each run leaves a note of its stores
and repartition topics, and the next one is compared with it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.streams.topology.topology import SinkNode, SourceNode, Topology

_GENERATED: Final = re.compile(r"\d{10}")


@dataclass(frozen=True, slots=True)
class StoreNote:
    kind: str
    upstream: tuple[str, ...]  # the topics of others that feed it, directly or not


@dataclass(frozen=True, slots=True)
class TopologyNote:
    stores: Mapping[str, StoreNote] = field(default_factory=dict)
    repartitions: tuple[str, ...] = ()

    def to_json(self) -> str:
        stores = {name: {"kind": note.kind, "upstream": list(note.upstream)} for name, note in self.stores.items()}
        return json.dumps({"version": 1, "stores": stores, "repartitions": list(self.repartitions)}, indent=1)


def read_note(text: str) -> TopologyNote:
    """Raises ValueError for what is none."""
    try:
        document: Any = json.loads(text)
        stores = {n: StoreNote(each["kind"], tuple(each["upstream"])) for n, each in document["stores"].items()}
        return TopologyNote(stores, tuple(document["repartitions"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no note of a topology: {error}") from None


def note_of(topology: Topology) -> TopologyNote:
    """Of what is kept in changelog topics; global tables are read from their own."""
    stores = {
        store.name: StoreNote(store.spec.kind.value, _upstream(topology, store.name))
        for store in topology.stores.values()
        if store.spec.logged and store.source_topic is None and topology.processors_of(store.name)
    }
    return TopologyNote(stores, tuple(sorted(topology.internal_topics)))


def _upstream(topology: Topology, store: str) -> tuple[str, ...]:
    found: set[str] = set()
    waiting, seen = list(topology.processors_of(store)), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            node = topology.nodes[name]
            if isinstance(node, SourceNode):
                internal = set(node.topics) & set(topology.internal_topics)
                found |= set(node.topics) - internal | ({node.pattern} if node.pattern is not None else set())
                waiting += [
                    n for n, sink in topology.nodes.items() if isinstance(sink, SinkNode) and sink.topic in internal
                ]
            else:
                waiting += node.parents
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Losses:
    """`stores`: whose changelog nobody would read any more. `mistaken`: whose name another operator's store has now."""

    stores: tuple[str, ...] = ()
    mistaken: tuple[str, ...] = ()
    repartitions: tuple[str, ...] = ()  # whose records nobody would read any more, if there are any

    def __bool__(self) -> bool:
        return bool(self.stores or self.mistaken or self.repartitions)


def losses(former: TopologyNote, new: TopologyNote) -> Losses:
    lost = tuple(sorted(former.stores.keys() - new.stores.keys()))
    mistaken = []
    for name in sorted(former.stores.keys() & new.stores.keys()):
        one, two = former.stores[name], new.stores[name]
        generated = _GENERATED.search(name) is not None
        if one.kind != two.kind or (generated and one.upstream != two.upstream):
            mistaken.append(name)
    return Losses(lost, tuple(mistaken), tuple(sorted(set(former.repartitions) - set(new.repartitions))))
