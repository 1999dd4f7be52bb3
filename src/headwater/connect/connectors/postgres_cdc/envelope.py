"""Records in Debezium's shapes: the envelope of a change, the source block, transactions, messages and heartbeats.
Pure.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headwater._version import VERSION
from headwater.connect.connectors.postgres_cdc.table_model import TableModel
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, Headers, SourceRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct

_SNAPSHOT: Final = Schema(
    Type.STRING,
    optional=True,
    default="false",
    name="io.debezium.data.Enum",
    version=1,
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
)
SOURCE_SCHEMA: Final = s.struct(
    [
        ("version", s.STRING),
        ("connector", s.STRING),
        ("name", s.STRING),
        ("ts_ms", s.INT64),
        ("snapshot", _SNAPSHOT),
        ("db", s.STRING),
        ("sequence", s.OPTIONAL_STRING),
        ("ts_us", s.OPTIONAL_INT64),
        ("ts_ns", s.OPTIONAL_INT64),
        ("schema", s.STRING),
        ("table", s.STRING),
        ("txId", s.OPTIONAL_INT64),
        ("lsn", s.OPTIONAL_INT64),
        ("xmin", s.OPTIONAL_INT64),
        ("origin", s.OPTIONAL_STRING),
        ("origin_lsn", s.OPTIONAL_INT64),
    ],
    name="io.debezium.connector.postgresql.Source",
    version=1,
)
TRANSACTION_SCHEMA: Final = s.struct(
    [("id", s.STRING), ("total_order", s.INT64), ("data_collection_order", s.INT64)],
    optional=True,
    name="event.block",
    version=1,
)
_COMMON: Final = "io.debezium.connector.common"
_COUNT: Final = s.struct(
    [("data_collection", s.STRING), ("event_count", s.INT64)], optional=True, name="event.collection", version=1
)
_TRANSACTION_KEY: Final = s.struct([("id", s.STRING)], name=f"{_COMMON}.TransactionMetadataKey", version=1)
_TRANSACTION_VALUE: Final = s.struct(
    [
        ("status", s.STRING),
        ("id", s.STRING),
        ("event_count", s.OPTIONAL_INT64),
        ("data_collections", s.array(_COUNT, optional=True)),
        ("ts_ms", s.INT64),
    ],
    name=f"{_COMMON}.TransactionMetadataValue",
    version=1,
)
_HEARTBEAT_KEY: Final = s.struct([("serverName", s.STRING)], name=f"{_COMMON}.ServerNameKey", version=1)
_HEARTBEAT_VALUE: Final = s.struct([("ts_ms", s.INT64)], name=f"{_COMMON}.Heartbeat", version=1)
_MESSAGE_KEY: Final = s.struct(
    [("prefix", s.OPTIONAL_STRING)], name="io.debezium.connector.postgresql.MessageKey", version=1
)


def _message_schema(content: Schema) -> Schema:
    inner = s.struct(
        [("prefix", s.OPTIONAL_STRING), ("content", content.as_optional())],
        name="io.debezium.connector.postgresql.Message",
        version=1,
    )
    fields = [
        ("op", s.STRING),
        ("ts_ms", s.OPTIONAL_INT64),
        ("source", SOURCE_SCHEMA),
        ("transaction", TRANSACTION_SCHEMA),
        ("message", inner),
    ]
    return s.struct(fields, name="io.debezium.connector.postgresql.MessageValue", version=1)


class Names(NamedTuple):
    """What stays the same in every record of a task."""

    prefix: str  # topic.prefix: the logical name of the server
    database: str
    transaction_topic: str
    heartbeat_topic: str
    message_topic: str
    headers: Headers
    content: Schema  # of logical messages, by binary.handling.mode


class Source(NamedTuple):
    """Where a change comes from."""

    lsn: int
    commit_us: int
    xid: int | None
    last_commit: int | None = None  # the end of the transaction before, as far as it is known
    snapshot: str = "false"
    origin: str | None = None


Offset = Mapping[str, Any]


class Envelopes:
    def __init__(self, names: Names) -> None:
        self._names = names
        self.partition: Offset = {"server": names.prefix}
        self._message_schema = _message_schema(names.content)

    def change(
        self,
        model: TableModel,
        op: str,
        key: Struct | None,
        before: Struct | None,
        after: Struct | None,
        source: Source,
        transaction: Struct | None,
        now_ns: int,
        headers: Headers = (),
    ) -> SourceRecord:
        """Without its offset, which the stream knows."""
        block = self._source(source, model.table.schema, model.table.name)
        times = (now_ns // 1_000_000, now_ns // 1000, now_ns)
        value = Struct.of(model.envelope_schema, [before, after, block, transaction, op, *times])
        return self._record(model.topic, model.key_schema, key, model.envelope_schema, value, headers)

    def tombstone(self, model: TableModel, key: Struct | None, headers: Headers = ()) -> SourceRecord:
        return self._record(model.topic, model.key_schema, key, None, None, headers)

    def truncate(self, model: TableModel, source: Source, transaction: Struct | None, now_ns: int) -> SourceRecord:
        made = self.change(model, "t", None, None, None, source, transaction, now_ns)
        return made.replaced(key_schema=None, key=None)

    def message(
        self, prefix: str, content: Any, source: Source, transaction: Struct | None, now_ns: int
    ) -> SourceRecord:
        inner = self._message_schema.fields[-1].schema
        block = self._source(source, "", "")
        said = Struct.of(inner, [prefix, content])
        value = Struct.of(self._message_schema, ["m", now_ns // 1_000_000, block, transaction, said])
        key = Struct.of(_MESSAGE_KEY, [prefix])
        return SourceRecord(topic=self._names.message_topic, key_schema=_MESSAGE_KEY, key=key, value_schema=self._message_schema, value=value, source_partition=self.partition)  # fmt: skip

    def transaction(self, status: str, name: str, commit_us: int, counts: Mapping[str, int] | None) -> SourceRecord:
        collections = total = None
        if counts is not None:
            total = sum(counts.values())
            collections = [Struct.of(_COUNT, [table, counts[table]]) for table in sorted(counts)]
        value = Struct.of(_TRANSACTION_VALUE, [status, name, total, collections, commit_us // 1000])
        key = Struct.of(_TRANSACTION_KEY, [name])
        return SourceRecord(topic=self._names.transaction_topic, key_schema=_TRANSACTION_KEY, key=key, value_schema=_TRANSACTION_VALUE, value=value, source_partition=self.partition)  # fmt: skip

    def heartbeat(self, now_ms: int, offset: Offset) -> SourceRecord:
        key, value = Struct.of(_HEARTBEAT_KEY, [self._names.prefix]), Struct.of(_HEARTBEAT_VALUE, [now_ms])
        return SourceRecord(topic=self._names.heartbeat_topic, partition=0, key_schema=_HEARTBEAT_KEY, key=key, value_schema=_HEARTBEAT_VALUE, value=value, source_partition=self.partition, source_offset=offset)  # fmt: skip

    def _record(
        self,
        topic: str,
        key_schema: Schema | None,
        key: Struct | None,
        value_schema: Schema | None,
        value: Struct | None,
        headers: Headers,
    ) -> SourceRecord:
        return SourceRecord(topic=topic, key_schema=key_schema, key=key, value_schema=value_schema, value=value, headers=(*headers, *self._names.headers), source_partition=self.partition)  # fmt: skip

    def _source(self, source: Source, schema: str, table: str) -> Struct:
        names, us = self._names, source.commit_us
        last = "null" if source.last_commit is None else f'"{source.last_commit}"'
        sequence = f'[{last},"{source.lsn}"]'
        values = [VERSION, "postgresql", names.prefix, us // 1000, source.snapshot, names.database, sequence, us, us * 1000, schema, table, source.xid, source.lsn, None, source.origin, None]  # fmt: skip
        return Struct.of(SOURCE_SCHEMA, values)


def transaction_block(xid: int, lsn: int, total_order: int, order: int) -> Struct:
    return Struct.of(TRANSACTION_SCHEMA, [f"{xid}:{lsn}", total_order, order])


def key_header(name: str, key: Struct) -> Header:
    return Header(name, key.schema, key)
