"""From bytes to the records of a source: keys and values by its serdes, timestamps by its extractor. Owns nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.base.errors import UserError
from headwater.streams.engine.failures import FailureHandler, own_line
from headwater.streams.engine.partition_group import Decode
from headwater.streams.engine.table_source import TableSource
from headwater.streams.model.record import InputRecord, Record
from headwater.streams.model.time import fail_on_invalid_timestamp, wallclock_timestamp
from headwater.streams.topology.topology import Node, ProcessorNode, SourceNode

if TYPE_CHECKING:
    from headwater.streams.engine.task_settings import TaskSettings


def source_decoder(
    node: SourceNode, settings: "TaskSettings", failures: FailureHandler, wall_clock_ms: Callable[[], int]
) -> Decode:
    """A record that cannot be decoded goes to `failures`; one with a negative timestamp is left out."""
    read_key = (node.key or settings.key).deserialize
    read_value = (node.value or settings.value).deserialize
    extract = node.extractor or settings.extractor
    if extract is wallclock_timestamp:
        extract = lambda record, raw, time: wall_clock_ms()  # noqa: ARG005, E731

    def decode(raw: InputRecord, partition_time: int) -> Record | None:
        try:
            key = None if raw.key is None else read_key(raw.key)
            value = None if raw.value is None else read_value(raw.value)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything; the policy decides
            failures.handle(failures.of("deserialization", error, raw, raw.timestamp, node.name))
            return None
        record = Record(key, value, raw.timestamp, raw.headers)
        try:
            timestamp = extract(record, raw, partition_time)
            is_valid = timestamp >= 0
        except UserError:  # it tells what is wrong with the record itself
            raise
        except Exception as error:  # as in Kafka Streams, no policy is asked; but which record it was is told
            raise extraction_failed(error, raw, node.name) from error
        if not is_valid:
            failures.drop("negative timestamp")
            return None
        record.timestamp = timestamp
        return record

    return decode


def extraction_failed(error: Exception, raw: InputRecord, node: str) -> UserError:
    line = own_line(error.__traceback__)
    return UserError(
        f"The timestamp extractor of {node} failed, with the record at {raw.topic}-{raw.partition} offset {raw.offset}",
        f"{type(error).__name__}: {error}" + (f", at {line}" if line else ""),
        "It gives the milliseconds since 1970; a negative number leaves the record out",
    )


def is_table_of(node: Node, source: str) -> bool:
    """Whether a node keeps the records of a source as rows."""
    return isinstance(node, ProcessorNode) and source in node.parents and isinstance(node.supplier, TableSource)


def global_decoder(
    node: SourceNode, settings: "TaskSettings", failures: FailureHandler, restoring: Callable[[], bool], is_table: bool
) -> Decode:
    """Of a global table or store. As in Kafka Streams no extractor is asked, that of the application neither: a record
    has its own timestamp. A negative one fails, whatever the policy is; but of what is in the topic at the start, a
    table takes it as it is, and for the processor of a store the policy of deserialization decides.
    """
    read_key = (node.key or settings.key).deserialize
    read_value = (node.value or settings.value).deserialize

    def decode(raw: InputRecord, partition_time: int) -> Record | None:
        try:
            key = None if raw.key is None else read_key(raw.key)
            value = None if raw.value is None else read_value(raw.value)
            record = Record(key, value, raw.timestamp, raw.headers)
            if restoring() and not is_table:
                fail_on_invalid_timestamp(record, raw, partition_time)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything; the policy decides
            failures.handle(failures.of("deserialization", error, raw, raw.timestamp, node.name))
            return None
        if not restoring():
            fail_on_invalid_timestamp(record, raw, partition_time)
        return record

    return decode
