"""`GlobalTable`: a table that every task has whole, for joins by any key and for lookups in processors."""

from typing import TYPE_CHECKING

from headwater.streams.engine.table import View, store_view

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


class GlobalTable:
    """Of a topic. Its store has a name, by which every processor may read it."""

    def __init__(self, app: "App", store_name: str, queryable_name: str | None) -> None:
        self.app = app
        self.store_name = store_name
        self.queryable_name = queryable_name

    def view(self) -> View:
        return store_view(self.store_name)
