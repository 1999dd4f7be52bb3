from collections.abc import Callable
from typing import Any

from headwater.broker.handlers.offset_commit_frames import Read
from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.groups.plain_commits import Part
from headwater.coordinator.transactions.transaction import Transaction
from headwater.replication.partition import Partition

_HandleFrame = Callable[[Any, memoryview, int, int, int, int], bytes | None]

def configure(
    partition: type,
    log: type,
    segment: type,
    producer_states: type,
    producer: type,
    file: type,
    in_python: _HandleFrame,
    /,
) -> None: ...
def configure_rights(rights: type, /) -> None: ...
def handle_frame(
    broker: Any, frame: memoryview, at: int, end: int, version: int, correlation_id: int, /
) -> bytes | None: ...
def read_commit(frame: memoryview, at: int, end: int, version: int, correlation_id: int, /) -> Read | None: ...
def append_commit(
    partition: Partition, group_id: str, topic: str, topic_id: bytes, parts: list[Part], now_ms: int, /
) -> int: ...
def append_records(partition: Partition, records: list[CoordinatorRecord], now_ms: int, /) -> int: ...
def append_marker(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    committed: bool,
    now_ms: int,
    /,
) -> int: ...
def configure_transactions(transaction: type, /) -> None: ...
def append_transaction(partition: Partition, transaction: Transaction, now_ms: int, /) -> int: ...
def commit_transaction(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    now_ms: int,
    /,
) -> int: ...
