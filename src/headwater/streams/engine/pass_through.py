"""A node that changes nothing: `merge`, and the branches of `split`."""

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class PassThrough(Processor):
    """Gives each record to its children."""

    def process(self, record: Record) -> None:
        self.forward(record)
