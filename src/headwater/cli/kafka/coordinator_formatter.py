"""Records of `__consumer_offsets` and `__transaction_state` for people, as Kafka's formatters of them print: JSON, and
of one type each. Each record has a line here; Kafka's stand one behind the other.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.kafka.coordinator_records import as_json, group_document, transaction_document
from headwater.coordinator.records.group_records import GroupMetadataRecord, OffsetCommitRecord

if TYPE_CHECKING:
    from headwater.client.types import FetchedRecord

Document = dict[str, Any]
Read = Callable[[bytes, bytes | None], Document | None]

FORMATTERS: Final[dict[str, Read]] = {
    "OffsetsMessageFormatter": lambda key, value: group_document(key, value, OffsetCommitRecord),
    "GroupMetadataMessageFormatter": lambda key, value: group_document(key, value, GroupMetadataRecord),
    "TransactionLogMessageFormatter": transaction_document,
}


def line_of(read: Read, record: "FetchedRecord") -> bytes:
    """Nothing for what is of another type."""
    document = None if record.key is None else read(record.key, record.value)
    return b"" if document is None else as_json(document).encode() + b"\n"
