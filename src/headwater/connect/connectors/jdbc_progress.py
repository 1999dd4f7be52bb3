"""How far a sink has come, in a table beside its rows: both change in one transaction, so each record counts once.

A row per connector, topic and partition has the next offset. Every transaction begins by changing that row to what it
is, which locks it in each dialect: of two tasks that believe to have the partition, the second sees what the first has
done, and leaves those records out. The row is made before the first of these, in a transaction of its own, so that
there is one to lock.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_dialects import Dialect

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
        names = ", ".join(f"{self._dialect.quote_column(each)} {kind}" for each, kind in zip(_KEYS, ("VARCHAR(249)", "VARCHAR(249)", "INTEGER"), strict=True))  # fmt: skip
        key = ", ".join(self._dialect.quote_column(each) for each in _KEYS)
        number = self._dialect.quote_column("next_offset")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._dialect.quote(self._table)} ({names}, {number} BIGINT NOT NULL, PRIMARY KEY ({key}))"
        )
        connection.commit()
        found = {}
        for each in partitions:
            if self._read(cursor, each) is None:
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
        names = (*_KEYS, "next_offset") if keep else _KEYS
        sql = self._dialect.upsert(self._table, _KEYS, ("next_offset",))
        if keep:
            listed = ", ".join(self._dialect.quote_column(each) for each in names)
            marks = ", ".join([self._dialect.placeholder] * len(names))
            key = ", ".join(self._dialect.quote_column(each) for each in _KEYS)
            sql = f"INSERT INTO {self._dialect.quote(self._table)} ({listed}) VALUES ({marks}) ON CONFLICT ({key}) DO NOTHING"
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
            f"SELECT {number} FROM {self._dialect.quote(self._table)} WHERE {self._where}", self._key(partition)
        )
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _key(self, partition: TopicPartition) -> list[Any]:
        return [self._connector, partition.topic, int(partition.partition)]
