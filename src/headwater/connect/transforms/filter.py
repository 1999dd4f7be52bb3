"""Filter: drops records, mostly with a predicate."""

from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.transforms.base import Transformation


class Filter(Transformation):
    is_pure = True
    doc = "Drops every record. With a predicate: every record that it is true for."

    def apply(self, record: ConnectRecord) -> None:
        del record

    def apply_columns(self, values: ValueColumns) -> ValueColumns:
        return values._replace(columns=[each.slice(0, 0) for each in values.columns])
