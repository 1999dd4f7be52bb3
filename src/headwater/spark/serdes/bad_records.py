"""Records that do not decode: they fail the task, are dropped, or go to a topic of dead letters with the reason in
headers.

A dead letter is the record as it was, key, value, headers and time, with the headers `__headwater.errors.*` behind its
own. It is written before the rest of its batch goes on to Spark. A task that is tried again writes it again: told apart
by topic, partition and offset.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from headwater.base.errors import UserError
from headwater.spark.serdes.decoding import BadRecord, ColumnDecoder, decode_batch
from headwater.spark.serdes.options import SerdeOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.client.producer.arrow import TableDelivery

HEADERS: Final = "__headwater.errors."
_REASON_CHARACTERS_MAX: Final = 2000


class DeadLetters(Protocol):
    """Where dead letters go; `send` returns when the brokers have them."""

    def send(self, letters: "pa.RecordBatch") -> None: ...


class DeadLetterTopic:
    """A producer, made for the first letter. Owned by one task."""

    def __init__(self, settings: Mapping[str, object], topic: str) -> None:
        self._settings = settings
        self._topic = topic

    def send(self, letters: "pa.RecordBatch") -> None:
        from headwater.client.producer.producer import Producer

        with Producer(dict(self._settings)) as producer:
            sent: TableDelivery = producer.send_arrow(
                letters, self._topic, key="key", value="value", headers="headers", timestamp="timestamp"
            )
            producer.flush()
            sent.result()


def typed_batches(
    raw: Iterator["pa.RecordBatch"],
    decoders: Mapping[str, ColumnDecoder],
    options: SerdeOptions,
    letters: DeadLetters | None,
    names: list[str],
) -> Iterator["pa.RecordBatch"]:
    """Batches with typed columns. `raw` has all columns of the source; `names` are those that are wanted."""
    for batch in raw:
        typed, bad = decode_batch(batch, decoders)
        if bad:
            if options.bad_records == "fail":
                raise undecodable(batch, bad[0])
            _tell(batch, bad, options)
            if letters is not None:
                letters.send(dead_letters(batch, bad))
            typed = typed.filter(_others(len(batch), bad))
        yield typed.select(names)


def undecodable(batch: "pa.RecordBatch", bad: BadRecord) -> UserError:
    return UserError(
        f"The {bad.column} of {_place(batch, bad.row)} cannot be decoded",
        bad.reason,
        "Leave such records out with the option badRecords=drop, or keep them with badRecords=dead-letter:TOPIC",
    )


def dead_letters(batch: "pa.RecordBatch", bad: list[BadRecord]) -> "pa.RecordBatch":
    """These rows as they were, and what is wrong with them in headers."""
    import pyarrow as pa

    rows = batch.take(pa.array([each.row for each in bad], pa.int64()))
    headers = []
    for number, each in enumerate(bad):
        told = {
            "reason": f"{each.column}: {each.reason}"[:_REASON_CHARACTERS_MAX],
            "topic": rows.column("topic")[number].as_py(),
            "partition": str(rows.column("partition")[number].as_py()),
            "offset": str(rows.column("offset")[number].as_py()),
        }
        own = rows.column("headers")[number].as_py() or []
        headers.append([*own, *({"key": HEADERS + name, "value": text.encode()} for name, text in told.items())])
    at = rows.schema.get_field_index("headers")
    return rows.set_column(at, rows.schema.field(at), pa.array(headers, rows.schema.field(at).type))


def _others(count: int, bad: list[BadRecord]) -> "pa.Array":
    import pyarrow as pa

    keep = [True] * count
    for each in bad:
        keep[each.row] = False
    return pa.array(keep, pa.bool_())


def _tell(batch: "pa.RecordBatch", bad: list[BadRecord], options: SerdeOptions) -> None:
    where = f"go to {options.dead_letter_topic}" if options.dead_letter_topic else "are dropped"
    sys.stderr.write(
        f"headwater source: {len(bad)} records that do not decode {where}; the first is {_place(batch, bad[0].row)}: {bad[0].reason!r}\n"
    )


def _place(batch: "pa.RecordBatch", row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"the record of {topic}-{partition} at offset {offset}"
