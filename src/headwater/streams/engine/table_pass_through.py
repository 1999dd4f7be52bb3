"""Where the streams of a `cogroup` meet: a table over the store that they share."""

from collections.abc import Sequence

from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.table import TableSupplier, View
from headwater.streams.model.processor import Processor


class TablePassThrough:
    """The supplier. What it is asked for, its parents are asked for; all have one store."""

    def __init__(self, parents: Sequence[TableSupplier]) -> None:
        self._parents = parents

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        for parent in self._parents:
            parent.enable_sending_old_values(force_materialization)
        return True

    def view(self) -> View:
        return self._parents[0].view()

    def __call__(self) -> Processor:
        return PassThrough()
