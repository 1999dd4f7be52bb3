"""How far a sink has come, in a table beside its rows: both change in one transaction, so each record counts once.

A row per connector, topic and partition has the next offset. Every transaction begins by changing that row to what it
is, which locks it in each dialect, and reads it so that what others have committed is seen: of two tasks that believe
to have the partition, the second sees what the first has done, and leaves those records out. The row is made before the
first of these, in a transaction of its own, so that there is one to lock.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_dialects import Dialect
from headwater.connect.errors import ConnectError

_KEYS: Final = ("connector", "topic", "part")
_NOTHING: Final = -1  # no record has been written yet


class Progress:
    """SQL only: connections are the task's."""

    def __init__(self, dialect: Dialect, table: str, connector: str) -> None:
        self._dialect, self._table, self._connector = dialect, table, connector
        self._where = " AND ".join(f"{dialect.quote_column(each)} = {dialect.placeholder}" for each in _KEYS)

    def prepare(self, connection: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Table and rows are there; the next offsets of partitions that have one. Commits."""
        cursor = connection.cursor()
        text = self._dialect.name_type()
        names = ", ".join(f"{self._dialect.quote_column(each)} {kind}" for each, kind in zip(_KEYS, (text, text, "INTEGER"), strict=True))  # fmt: skip
        key = ", ".join(self._dialect.quote_column(each) for each in _KEYS)
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._dialect.quote(self._table)} ({names}, {number} BIGINT NOT NULL, PRIMARY KEY ({key}))",
            (),
        )
        connection.commit()
        if not self._dialect.has_transactions(connection, self._table):
            raise ConnectError(f"progress.table: {self._table!r} has an engine without transactions; InnoDB has them")
        found = {}
        for each in partitions:
            self.write(cursor, {each: _NOTHING}, keep=True)
            at = self._read(cursor, each)
            if at is not None and at != _NOTHING:
                found[each] = at
        cursor.close()
        connection.commit()
        return found

    def lock(self, cursor: Any, partition: TopicPartition) -> int:
        """The next offset, which nobody else changes until this transaction ends."""
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"UPDATE {self._dialect.quote(self._table)} SET {number} = {number} WHERE {self._where}",
            self._key(partition),
        )
        at = self._read(cursor, partition)
        return _NOTHING if at is None else at

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
        self.write(cursor, {each: _NOTHING if offset is None else offset for each, offset in offsets.items()})
        cursor.close()
        connection.commit()

    def reset(self, connection: Any) -> None:
        """Somebody forgets all offsets of a stopped connector. Rows stay, for there must be one to lock. Commits."""
        self.prepare(connection, ())
        number, name = (self._dialect.quote_column(each) for each in ("next_offset", _KEYS[0]))
        mark = self._dialect.placeholder
        cursor = connection.cursor()
        cursor.execute(
            f"UPDATE {self._dialect.quote(self._table)} SET {number} = {mark} WHERE {name} = {mark}",
            [_NOTHING, self._connector],
        )
        cursor.close()
        connection.commit()

    def _read(self, cursor: Any, partition: TopicPartition) -> int | None:
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"SELECT {number} FROM {self._dialect.quote(self._table)} WHERE {self._where}{self._dialect.locking_read}",
            self._key(partition),
        )
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _key(self, partition: TopicPartition) -> list[Any]:
        return [self._connector, partition.topic, int(partition.partition)]
