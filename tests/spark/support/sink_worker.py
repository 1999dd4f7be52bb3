"""A process that writes batches of 40 rows to a store until it is killed. Where to go on, it asks the store, as a
checkpoint that is one batch behind would: the last batch comes again each time."""

import random
import socket
import sys
import uuid
from collections.abc import Iterator

import pyarrow

from headwater.spark.sinks.options import Column, SinkOptions
from headwater.spark.sinks.postgres import PostgresStore
from headwater.spark.sinks.sqlite import SqliteStore
from headwater.spark.sinks.staging import Batch, Store, commit_batch, write_task

ROWS = 40


def run(kind: str, place: str, table: str) -> None:
    options = SinkOptions(place, table, (Column("n", "long"), Column("text", "string")), sink=table)
    store: Store = SqliteStore(options) if kind == "SqliteStore" else PostgresStore(options)
    store.prepare()
    last = store.last_batch("q")
    number = 0 if last is None else last
    while True:
        numbers = list(range(number * ROWS, (number + 1) * ROWS))
        random.shuffle(numbers)
        tasks = random.randint(1, 4)
        attempts = [
            write_task(store, Batch("q", number), uuid.uuid4().hex, socket.gethostname(), pieces(numbers[each::tasks]))
            for each in range(tasks)
        ]
        commit_batch(store, attempts)
        sys.stdout.write(f"batch {number}\n")
        sys.stdout.flush()
        number += 1


def pieces(numbers: list[int]) -> Iterator[pyarrow.RecordBatch]:
    for start in range(0, len(numbers), 7):
        part = numbers[start : start + 7]
        yield pyarrow.record_batch({"n": part, "text": [str(each) for each in part]})
