"""`table.suppress(...)`: checks what was asked for, and finds the grace of the windows above."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.base.errors import UserError
from headwater.streams.dsl.windows import Duration, milliseconds
from headwater.streams.engine.suppress import Suppression, TableSuppress
from headwater.streams.model.time import whole
from headwater.streams.plan.graph import GraphNode, ProcessorGraphNode
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.topology.name_rules import check_optional_name
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.dsl.table import Table


class SuppressNode(ProcessorGraphNode):
    refuses_versioned = True


def suppress(
    table: "Table",
    until_window_closes: bool,
    until_time_limit: Duration | None,
    records_max: int | None,
    bytes_max: int | None,
    emit_early_when_full: bool | None,
    name: str | None,
    logging: bool,
    topic_config: Mapping[str, str],
) -> "Table":
    if until_window_closes == (until_time_limit is not None):
        raise UserError("suppress waits for one thing", "", "until_window_closes=True, or until_time_limit=...")
    early = not until_window_closes if emit_early_when_full is None else emit_early_when_full
    if until_window_closes and early:
        raise UserError(
            "Final results cannot go out early", "they would not be final", "leave emit_early_when_full out"
        )
    check_optional_name(name, "an operator")
    records_max, bytes_max = _limit("records_max", records_max), _limit("bytes_max", bytes_max)
    if until_time_limit is not None and milliseconds(until_time_limit, "time limit") < 0:
        raise UserError(f"The time limit of suppress is {until_time_limit!r}", "it must not be negative")
    graph = table.graph
    node_name = graph.new_name("KTABLE-SUPPRESS-") if name is None else name
    wait = find_grace(table.node, "") if until_window_closes else milliseconds(until_time_limit or 0, "time limit")
    store_name = graph.new_store_name("KTABLE-SUPPRESS-") if name is None else f"{name}-store"
    suppression = Suppression(wait, until_window_closes, records_max, bytes_max, early)
    supplier = TableSuppress(table.supplier, suppression, store_name)
    spec = StoreSpec(store_name, timestamped=False, logged=logging, changelog_config=dict(topic_config))
    store = StorePlan(spec, table.key_serde, table.value_serde, buffer=True)
    node = SuppressNode(node_name, supplier, stores=[store])
    node.output_versioned = False
    behind = table.after(node_name, supplier, None, table.value_serde, node=node)
    behind.sources = frozenset({table.name})
    return behind


def _limit(name: str, given: object) -> int | None:
    """Of what is held back. 0 holds nothing back."""
    found = None if given is None else whole(given)
    if given is not None and (found is None or found < 0):
        raise UserError(f"{name} of suppress is {given!r}", "a whole number is needed, not negative; None: no limit")
    return found


def find_grace(node: GraphNode, chain: str) -> int:
    """The grace of the windowed aggregation above; the largest, if there are several."""
    if node.grace_ms is not None:
        return node.grace_ms
    path = f"{node.name}->{chain}" if chain else node.name
    if not node.parents:
        raise UserError(
            "Only windows close", f"there are none above: {path}", "until_time_limit=... works on every table"
        )
    return max(find_grace(parent, path) for parent in node.parents)
