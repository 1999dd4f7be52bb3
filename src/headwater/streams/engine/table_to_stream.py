"""`to_stream`: the new value of each change of a table."""

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class TableToStream(Processor):
    def process(self, record: Record) -> None:
        self.forward(Record(record.key, record.value.new, record.timestamp, record.headers))
