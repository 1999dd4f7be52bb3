"""`GlobalTable`: a table that every task has whole, for joins by any key and for lookups in processors."""

from typing import TYPE_CHECKING

from headwater.streams.dsl.frames import HasFrames
from headwater.streams.engine.table import View, store_view
from headwater.streams.plan.tables import GlobalStoreNode
from headwater.streams.serdes.port import Serde

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


class GlobalTable(HasFrames):
    """Of a topic. Its store has a name, by which every processor may read it.
    `df` is in `frames`: it reads the topic.
    """

    is_table = True

    def __init__(
        self,
        app: "App",
        node: GlobalStoreNode,
        key: Serde | None,
        value: Serde | None,
        store_name: str,
        queryable_name: str | None,
    ) -> None:
        self.app = app
        self.node = node
        self.name = node.name
        self.key_serde = key
        self.value_serde = value
        self.store_name = store_name
        self.queryable_name = queryable_name

    def view(self) -> View:
        return store_view(self.store_name)
