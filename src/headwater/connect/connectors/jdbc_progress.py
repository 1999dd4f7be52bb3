"""How far a sink has come, in a table beside its rows: both change in one transaction, so each record counts once.

A row per connector, topic and partition has the next offset. Every transaction begins by changing that row to what it
is, which locks it in each dialect, and reads it so that what others have committed is seen: of two tasks that believe
to have the partition, the second sees what the first has done, and leaves those records out. The row is made before the
first of these, in a transaction of its own, so that there is one to lock.

`generation` counts how often somebody has set the offset of the row: a task that read another one when it got the
partition was over by then. The offset alone does not tell that of a task that has not written anything yet. A table of
an earlier version gets the column, with a default: tasks of that version go on writing to it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_dialects import Dialect
from headwater.connect.errors import ConnectError

_KEYS: Final = ("connector", "topic", "part")
_NOTHING: Final = -1  # no record has been written yet
_GENERATION: Final = "generation"


class Mark(NamedTuple):
    next_offset: int  # -1: none yet
    generation: int

    @property
    def is_set(self) -> bool:
        return self.next_offset != _NOTHING


class Progress:
    """SQL only: connections are the task's."""

    def __init__(self, dialect: Dialect, table: str, connector: str) -> None:
        self._dialect, self._table, self._connector = dialect, table, connector
        self._where = " AND ".join(f"{dialect.quote_column(each)} = {dialect.placeholder}" for each in _KEYS)

    def prepare(self, connection: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Mark]:
        """Table and rows are there; what these say. Commits."""
        cursor = connection.cursor()
        text = self._dialect.name_type()
        names = ", ".join(f"{self._dialect.quote_column(each)} {kind}" for each, kind in zip(_KEYS, (text, text, "INTEGER"), strict=True))  # fmt: skip
        key = ", ".join(self._dialect.quote_column(each) for each in _KEYS)
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._dialect.quote(self._table)} ({names}, {number} BIGINT NOT NULL, {self._generation_column}, PRIMARY KEY ({key}))",
            (),
        )
        connection.commit()
        if not self._dialect.has_transactions(connection, self._table):
            raise ConnectError(f"progress.table: {self._table!r} has an engine without transactions; InnoDB has them")
        self._add_generation(connection)
        found = {}
        for each in partitions:
            self.write(cursor, {each: _NOTHING}, keep=True)
            found[each] = self._read(cursor, each)
        cursor.close()
        connection.commit()
        return found

    def lock(self, cursor: Any, partition: TopicPartition) -> Mark:
        """What the row says, which nobody else changes until this transaction ends."""
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"UPDATE {self._dialect.quote(self._table)} SET {number} = {number} WHERE {self._where}",
            self._key(partition),
        )
        return self._read(cursor, partition)

    def write(self, cursor: Any, offsets: Mapping[TopicPartition, int], *, keep: bool = False) -> None:
        """`keep`: a row that is there already stays as it is."""
        make = self._dialect.insert_if_absent if keep else self._dialect.upsert
        sql = make(self._table, _KEYS, ("next_offset",))
        for partition, offset in offsets.items():
            cursor.execute(sql, [*self._key(partition), offset])

    def alter(self, connection: Any, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Somebody sets or forgets (None) offsets of a stopped connector. Commits."""
        self.prepare(connection, offsets)
        cursor = connection.cursor()
        for each, offset in offsets.items():
            self._set(cursor, _NOTHING if offset is None else offset, self._where, self._key(each))
        cursor.close()
        connection.commit()

    def reset(self, connection: Any) -> None:
        """Somebody forgets all offsets of a stopped connector. Rows stay, for there must be one to lock. Commits."""
        self.prepare(connection, ())
        cursor = connection.cursor()
        where = f"{self._dialect.quote_column(_KEYS[0])} = {self._dialect.placeholder}"
        self._set(cursor, _NOTHING, where, [self._connector])
        cursor.close()
        connection.commit()

    def _set(self, cursor: Any, offset: int, where: str, key: list[Any]) -> None:
        """In one statement with the generation, so that no task sees the one without the other."""
        number, count = (self._dialect.quote_column(each) for each in ("next_offset", _GENERATION))
        cursor.execute(
            f"UPDATE {self._dialect.quote(self._table)} SET {number} = {self._dialect.placeholder}, {count} = {count} + 1 WHERE {where}",
            [offset, *key],
        )

    @property
    def _generation_column(self) -> str:
        return f"{self._dialect.quote_column(_GENERATION)} BIGINT DEFAULT 0 NOT NULL"

    def _add_generation(self, connection: Any) -> None:
        """To a table of an earlier version. Two tasks may do it at once: then it is there for the second."""
        if self._has_generation(connection):
            return
        table = self._dialect.quote(self._table)
        cursor = connection.cursor()
        try:
            cursor.execute(f"ALTER TABLE {table} ADD COLUMN {self._generation_column}", ())
            connection.commit()
        except self._dialect.errors as error:
            connection.rollback()
            if not self._has_generation(connection):
                raise ConnectError(
                    f"progress.table: {self._table!r} has no column {_GENERATION}, and it cannot be added"
                    f" ({self._dialect.message(error)}). Somebody who may do so has to:"
                    f" ALTER TABLE {self._table} ADD COLUMN {self._generation_column}"
                ) from None
        finally:
            cursor.close()

    def _has_generation(self, connection: Any) -> bool:
        column = f"p.{self._dialect.quote_column(_GENERATION)}"  # what is only quoted may be a text to SQLite
        cursor = connection.cursor()
        try:
            cursor.execute(f"SELECT {column} FROM {self._dialect.quote(self._table)} p WHERE 1 = 0", ())
            cursor.fetchall()
        except self._dialect.errors:
            return False
        finally:
            cursor.close()
            connection.rollback()
        return True

    def _read(self, cursor: Any, partition: TopicPartition) -> Mark:
        number, count = (self._dialect.quote_column(each) for each in ("next_offset", _GENERATION))
        cursor.execute(
            f"SELECT {number}, {count} FROM {self._dialect.quote(self._table)} WHERE {self._where}{self._dialect.locking_read}",
            self._key(partition),
        )
        row = cursor.fetchone()
        return Mark(_NOTHING, 0) if row is None else Mark(int(row[0]), int(row[1]))

    def _key(self, partition: TopicPartition) -> list[Any]:
        return [self._connector, partition.topic, int(partition.partition)]
