"""What processors of users forward, looked at before it goes on: a record as no broker takes it (a timestamp that is a
fraction, headers that are no bytes) would come as far as a commit, and end the run there without a word of where it
came from. Here it is a failure of the processor, with its line, which `on_error` may survive, in tests, too.
"""

from headwater.base.errors import UserError
from headwater.streams.engine.fixed_key import FixedKeyProcessor
from headwater.streams.model.origin import is_ours
from headwater.streams.model.processor import Forward, Processor
from headwater.streams.model.record import NO_HEADERS, TIMESTAMP_MAX, Record, checked_headers


def is_of_a_user(processor: Processor) -> bool:
    inner = processor.inner if isinstance(processor, FixedKeyProcessor) else processor
    return not is_ours(inner)


def checked(node: str, forward: Forward) -> Forward:
    def forward_checked(record: Record) -> None:
        if record.__class__ is not Record and not isinstance(record, Record):
            raise UserError(f"{node} forwards {record!r}", "a Record is needed", "record.with_value(...) makes one")
        if record.timestamp.__class__ is not int or not 0 <= record.timestamp <= TIMESTAMP_MAX:
            record = record.with_timestamp(record.timestamp)
        if record.headers is not NO_HEADERS:
            headers = checked_headers(record.headers)
            if headers is not record.headers:
                record = Record(record.key, record.value, record.timestamp, headers)
        forward(record)

    return forward_checked
