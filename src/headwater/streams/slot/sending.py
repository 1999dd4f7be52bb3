"""Records of a commit to the producer: few as lists per partition, many as a table per topic, which costs no Python per
record; one by one what neither takes (headers, nulls, records that may be refused).

The order of records of one topic stays. Where brokers refuse records for good, `Refused` says which: of a table none,
of a batch all, of those that were sent by themselves (`suspects`) exactly those. Of columns none either: their records
are made for the moment, and another object may have the identity of one that is gone. Owns nothing.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from headwater.base.errors import KafkaError
from headwater.client.producer.batch import Delivery
from headwater.client.producer.producer import Producer
from headwater.streams.engine.columns import OutputColumns
from headwater.streams.model.record import OutputRecord
from headwater.streams.slot.output_tables import as_table
from headwater.streams.slot.pending_outputs import Piece
from headwater.streams.slot.refusals import HOPELESS, Refused
from headwater.streams.stores.state import ChangelogPartition

if TYPE_CHECKING:
    from headwater.client.producer.arrow import TableDelivery

_FEW: Final = 100  # below, a table takes longer than lists
_LIST: Final = 3  # below, lists take longer than their records

Positions = dict[ChangelogPartition, int]


def send_all(
    producer: Producer, pieces: Sequence[Piece], suspects: Collection[int] | None = None
) -> Callable[[], Positions]:
    """What it returns gives, once they are flushed, the offset behind the last record of each partition; it raises what
    failed.

    `suspects`: identities of records that go by themselves. With them, or without any (an empty set), nothing goes as a
    table.
    """
    by_topic: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_topic.setdefault(piece.topic, []).append(piece)
    sent = [each for topic, pieces in by_topic.items() for each in _send_topic(producer, topic, pieces, suspects)]

    def positions() -> Positions:
        found: Positions = {}
        for each in sent:
            found |= each()
        return found

    return positions


def _send_topic(
    producer: Producer, topic: str, pieces: list[Piece], suspects: Collection[int] | None
) -> Iterator[Callable[[], Positions]]:
    """Records that follow each other together, columns by themselves."""
    for are_columns, together in groupby(pieces, key=lambda piece: isinstance(piece, OutputColumns)):
        rows: list[OutputRecord] = []
        for piece in together:
            if isinstance(piece, OutputColumns):
                if suspects is None and len(piece) >= _FEW and not _needs_choice(piece):
                    yield _send_columns(producer, piece)
                else:
                    yield _nameless(_send_each(producer, piece.records(), suspects or ()))
            else:
                rows.append(piece)
        if are_columns:
            continue
        if suspects is None and _is_table(rows):
            yield _send_table(producer, topic, rows)
        elif suspects is None and producer.takes_many and _are_lists(rows):
            yield from _send_lists(producer, topic, rows)
        else:
            yield _send_each(producer, rows, suspects or ())


def _nameless(sent: Callable[[], Positions]) -> Callable[[], Positions]:
    """The same, for records that nobody else has: which of them is refused cannot be told."""

    def positions() -> Positions:
        try:
            return sent()
        except Refused as refused:
            raise Refused(refused.error, {}, certain=False) from refused.error

    return positions


def _needs_choice(columns: OutputColumns) -> bool:
    """A record without a key goes where the producer likes, which is no matter of tables."""
    return columns.partition is None and columns.partitions is None and columns.has_null_key


def _is_table(rows: list[OutputRecord]) -> bool:
    if len(rows) < _FEW or any(row[5] for row in rows):  # headers
        return False
    placed = sum(row[1] is not None for row in rows)
    return placed in (0, len(rows)) and (placed > 0 or all(row[2] is not None for row in rows))


def _send_table(producer: Producer, topic: str, rows: list[OutputRecord]) -> Callable[[], Positions]:
    _, partitions, keys, values, timestamps, _ = zip(*rows, strict=True)
    columns = OutputColumns(topic)
    columns.keys, columns.values, columns.timestamps = list(keys), list(values), list(timestamps)
    columns.partitions = None if partitions[0] is None else list(partitions)
    return _send_columns(producer, columns)


def _are_lists(rows: list[OutputRecord]) -> bool:
    if len(rows) < _LIST or any(row[2] is None or row[3] is None or row[5] for row in rows):  # key, value, headers
        return False
    return sum(row[1] is not None for row in rows) in (0, len(rows))


def _send_lists(producer: Producer, topic: str, rows: list[OutputRecord]) -> Iterator[Callable[[], Positions]]:
    """One call for each partition that is named, in its order, or one for all where keys decide."""
    by_partition: dict[int | None, list[OutputRecord]] = {}
    for row in rows:
        by_partition.setdefault(row[1], []).append(row)
    for partition, together in by_partition.items():
        _, _, keys, values, timestamps, _ = zip(*together, strict=True)
        send = partial(producer.send_many, topic, values, keys=keys, partition=partition, timestamps_ms=timestamps)
        yield _sent(topic, send)


def _send_columns(producer: Producer, columns: OutputColumns) -> Callable[[], Positions]:
    topic, table = columns.topic, as_table(columns)
    place = "partition" if "partition" in table.column_names else columns.partition
    return _sent(topic, partial(producer.send_arrow, table, topic, key="key", timestamp="timestamp", partition=place))


def _sent(topic: str, send: "Callable[[], TableDelivery]") -> Callable[[], Positions]:
    try:
        delivery = send()
    except KafkaError as error:
        return _raising(error)

    def positions() -> Positions:
        try:
            written = delivery.result().partitions
        except KafkaError as error:
            return _raising(error)()
        return {ChangelogPartition(topic, partition): offsets.last + 1 for partition, offsets in written.items()}

    return positions


def _raising(error: KafkaError) -> Callable[[], Positions]:
    def positions() -> Positions:
        if error.code in HOPELESS:
            raise Refused(error, {}, certain=False) from error
        raise error

    return positions


def _send_each(producer: Producer, rows: list[OutputRecord], suspects: Collection[int]) -> Callable[[], Positions]:
    deliveries: list[tuple[OutputRecord, Delivery]] = []
    refused: dict[int, KafkaError] = {}
    stopped: KafkaError | None = None
    for row in rows:
        topic, partition, key, value, timestamp, headers = row
        alone = id(row) in suspects
        try:
            if alone:
                producer.flush()
            sent = producer.send(topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp)
            deliveries.append((row, sent))
            if alone:
                producer.flush()
        except KafkaError as error:
            if error.code in HOPELESS:  # it never left this process: there is no doubt
                refused[id(row)] = error
            else:  # often because an earlier one has failed: those tell why
                stopped = error
            break

    def positions() -> Positions:
        found: Positions = {}
        certain = bool(refused)
        other = stopped
        for row, delivery in deliveries:
            try:
                metadata = delivery.result()
            except KafkaError as error:
                if error.code in HOPELESS:
                    refused.setdefault(id(row), error)
                else:
                    other = other or error
                continue
            place = ChangelogPartition(metadata.topic, metadata.partition)
            found[place] = max(found.get(place, 0), metadata.offset + 1)
        if refused:
            sure = {each: error for each, error in refused.items() if each in suspects}
            certain = certain and len(refused) == 1
            raise Refused(next(iter(refused.values())), sure or refused, certain=certain or bool(sure))
        if other is not None:
            raise other
        return found

    return positions
