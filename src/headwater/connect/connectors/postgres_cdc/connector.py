"""The connector and its one task: makes publication and slot, gives the snapshot, then follows the log.

All of it in the task's thread. What the server may forget is told only after the worker has committed the offset:
`commit` reads it back from where it is stored. A connection that breaks is opened again by the next poll, and what was
given stays given.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigValue
from headwater.connect.connectors.postgres_cdc import options
from headwater.connect.connectors.postgres_cdc.change_stream import ChangeStream, Position, Settings, position_of
from headwater.connect.connectors.postgres_cdc.column_rules import ColumnRules, Patterns, TableFilter
from headwater.connect.connectors.postgres_cdc.column_types import Modes, TypeInfo, binary_of
from headwater.connect.connectors.postgres_cdc.envelope import SOURCE_SCHEMA, TRANSACTION_SCHEMA, Envelopes, Names
from headwater.connect.connectors.postgres_cdc.pgoutput import Keepalive, Relation, decode
from headwater.connect.connectors.postgres_cdc.replica_identity import ReplicaIdentities
from headwater.connect.connectors.postgres_cdc.snapshot import (
    begun_anew,
    is_unfinished,
    snapshot_records,
    tables_read,
)
from headwater.connect.connectors.postgres_cdc.table_model import Naming, Table, TableModel
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, SourceRecord
from headwater.connect.errors import ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from headwater.connect.connectors.postgres_cdc.replication import ReplicationConnection

logger = logging.getLogger("headwater.connect")

T = TypeVar("T")

_STORED_S: Final = 0.1  # between looks at what is stored


class PostgresCdcTask(SourceTask):
    def __init__(self) -> None:
        self._replication: ReplicationConnection | None = None
        self._stream: ChangeStream | None = None
        self._snapshot: Iterator[SourceRecord] | None = None
        self._resources = ExitStack()
        self._stop = threading.Event()

    def start(self, props: Mapping[str, str]) -> None:
        from headwater.connect.connectors.postgres_cdc.catalog import Server

        config = self._config = options.parse(props)
        self._parameters = options.parameters(config)
        self._server: Server = Server(
            self._parameters,
            config["database.initial.statements"],
            config["database.query.timeout.ms"],
            roots=config["publish.via.partition.root"],
        )
        self._filter, self._rules = TableFilter(config), ColumnRules(config, props)
        prefix = "snapshot.select.statement.overrides."
        self._overrides = {name[len(prefix) :]: value for name, value in props.items() if name.startswith(prefix)}
        self._modes = _modes(config)
        content, encode = binary_of(self._modes)
        adjust = (config["schema.name.adjustment.mode"] == "avro", config["field.name.adjustment.mode"] == "avro")
        self._naming = Naming(config["topic.prefix"], config["topic.delimiter"], *adjust)
        self._envelopes = Envelopes(_names(config, content))
        self._settings = _settings(config, encode)
        self._types: dict[int, TypeInfo] = {}
        self._stored: Mapping[str, Any] | None = self.context.offset_reader.offset(self._envelopes.partition)
        self._flushed = 0
        self._told_at = self._beaten_at = time.monotonic()
        self._finished = False
        self._was_connected = False  # with all that is needed: for the log, too
        self._begins_anew = False  # the offset that says so is on its way, and nothing happens before it is stored

    def poll(self) -> list[SourceRecord] | None:
        if self._finished:
            self._stop.wait(0.5)
            return None
        try:
            if self._begins_anew and not self._anew_is_stored():
                return None
            if self._snapshot is None and self._replication is None:
                self._open()
            if self._begins_anew:
                return [self._envelopes.heartbeat(time.time_ns() // 1_000_000, begun_anew(self._stored or {}))]
            if self._snapshot is not None:
                return self._next_rows(self._snapshot)
            return self._changes() if self._replication is not None else None
        except RetriableError:
            self._let_go()
            raise

    # ---- the beginning

    def _open(self) -> None:
        server, config = self._server, self._config
        self._reached(server.version)
        self._publish()
        self._identify()
        self._types = server.types()
        slot = server.slot(config["slot.name"])
        if slot is not None and slot.plugin != "pgoutput":
            raise ConnectError(f"The slot {config['slot.name']!r} is one of {slot.plugin}, not of pgoutput")
        if slot is not None and slot.lost:
            raise ConnectError(f"The slot {config['slot.name']!r} has lost its log (max_slot_wal_keep_size): drop it")
        if self._stream is not None:  # the connection was lost
            self._follow(self._replication_connection())
            return
        wanted = self._snapshot_wanted(slot is not None)
        if wanted and slot is None and self._stored is not None and not is_unfinished(self._stored):
            self._begins_anew = True
            return
        replication = self._resources.enter_context(contextlib.closing(self._replication_connection()))
        exported = None
        if slot is None:
            made = replication.create_slot(config["slot.name"], failover=config["slot.failover"])
            exported, stream_lsn = made.snapshot_name, made.consistent_lsn
        else:
            stream_lsn = slot.confirmed_lsn
        if wanted:
            before = tables_read(self._stored, None if slot is None else slot.confirmed_lsn)
            self._begin_snapshot(exported, stream_lsn, before)
            return
        self._resources.close()
        stored = self._stored if self._stored is not None and not is_unfinished(self._stored) else None
        self._begin_stream(position_of(stored) if stored else Position(stream_lsn), stored)

    def _replication_connection(self) -> "ReplicationConnection":
        from headwater.connect.connectors.postgres_cdc.replication import ReplicationConnection

        made = self._reached(lambda: ReplicationConnection(self._parameters))
        self._was_connected = True
        return made

    def _reached(self, connect: Callable[[], T]) -> T:
        """A server that was there is asked again for ever; one that never was, or refuses the login, is not
        (ConnectError), so that the status says it.
        """
        try:
            return connect()
        except RetriableError as error:
            if self._was_connected:
                raise
            raise ConnectError(str(error)) from None

    def _anew_is_stored(self) -> bool:
        """A new slot beside the offset of an old one would be believed after a crash: so that offset goes first, by a
        heartbeat.
        """
        stored = self.context.offset_reader.offset(self._envelopes.partition)
        if stored is None or not is_unfinished(stored):
            self._stop.wait(_STORED_S)
            return False
        self._stored, self._begins_anew = stored, False
        return True

    def _snapshot_wanted(self, has_slot: bool) -> bool:
        mode, stored = self._config["snapshot.mode"], self._stored
        known = stored is not None and not is_unfinished(stored)
        if mode == "no_data":
            if known and not has_slot and not self._config["slot.drop.on.stop"]:
                raise ConnectError(
                    f"The slot {self._config['slot.name']!r} is gone, and with it what changed since: stop the connector and delete its offsets "
                    "to go on with what changes from now on, or use snapshot.mode=when_needed to read all rows anew"
                )
            return False
        if mode == "always" or not known:
            return True
        if not has_slot and mode == "when_needed":
            return True
        if not has_slot:
            raise ConnectError(
                f"The slot {self._config['slot.name']!r} is gone, and with it what changed since; snapshot.mode=when_needed begins anew"
            )
        if mode == "initial_only":
            self._finished = True
        return False

    def _publish(self) -> None:
        server, config, name = self._server, self._config, self._config["publication.name"]
        mode, there = config["publication.autocreate.mode"], server.publication_tables(name)
        via_root = config["publish.via.partition.root"]
        if mode == "filtered":
            tables = [(schema, table) for _, schema, table in self._tables()]
            if not tables:
                raise ConnectError("No table is wanted: a publication of none is of no use")
            if there is None:
                server.create_publication(name, tables, via_root=via_root)
            elif there != set(tables):
                server.set_publication_tables(name, tables)
        elif there is None and mode == "disabled":
            raise ConnectError(f"There is no publication {name!r}, and publication.autocreate.mode=disabled")
        elif there is None:
            server.create_publication(name, None if mode == "all_tables" else [], via_root=via_root)

    def _identify(self) -> None:
        """What cannot be set (a right is missing) is logged: the log then has less of rows before their changes."""
        identities = ReplicaIdentities(self._config["replica.identity.autoset.values"])
        for oid, schema, table in self._tables() if identities else ():
            try:
                wanted = identities.of(schema, table)
                if wanted is not None and self._server.replica_identity(oid) != wanted:
                    self._server.set_replica_identity(schema, table, wanted)
                    logger.info("event=replica-identity-set table=%r identity=%r", f"{schema}.{table}", str(wanted))
            except RetriableError:
                raise
            except ConnectError as error:
                logger.error("event=replica-identity-not-set table=%r error=%r", f"{schema}.{table}", str(error))

    def _tables(self) -> list[tuple[int, str, str]]:
        return [each for each in self._server.tables() if self._filter.wanted(*each[1:])]

    # ---- the snapshot

    def _begin_snapshot(self, exported: str | None, stream_lsn: int, before: list[str]) -> None:
        snapshot = self._resources.enter_context(self._server.snapshot(exported))
        models = []
        for oid, schema, name in self._tables():
            if self._filter.in_snapshot(schema, name):
                table = self._server.table(oid, schema, name)
                if table.full_name not in before:
                    models.append(self._model(table))
        self._snapshot_lsn = stream_lsn
        self._snapshot = snapshot_records(
            snapshot,
            models,
            self._overrides,
            self._envelopes,
            stream_lsn,
            time.time_ns,
            self._settings.on_failure,
            before,
        )
        server = self._envelopes.partition["server"]
        logger.info("event=snapshot-begun server=%r tables=%d read_before=%d", server, len(models), len(before))

    def _next_rows(self, rows: Iterator[SourceRecord]) -> list[SourceRecord] | None:
        found = list(islice(rows, self._config["max.batch.size"]))
        if found:
            self._stored = found[-1].source_offset
            return found
        self._snapshot = None
        self._resources.close()
        logger.info("event=snapshot-ended server=%r", self._envelopes.partition["server"])
        if self._config["snapshot.mode"] == "initial_only":
            self._finished = True
            return None
        known = self._stored is not None and not is_unfinished(self._stored)
        self._begin_stream(Position(self._snapshot_lsn - 1, self._snapshot_lsn), self._stored if known else None)
        return None

    # ---- the stream

    def _begin_stream(self, done: Position, stored: Mapping[str, Any] | None) -> None:
        if self._finished:
            return
        self._stream = ChangeStream(self._envelopes, self._described, self._settings, done, stored)
        self._flushed = done.lsn
        self._follow(self._replication_connection())

    def _follow(self, replication: "ReplicationConnection") -> None:
        assert self._stream is not None
        more = self._config["slot.stream.params"] or ""
        given = dict(each.split("=", 1) for each in more.split(";") if "=" in each)
        try:
            replication.start(self._config["slot.name"], 0, self._config["publication.name"], given)
        except ConnectError:
            replication.close()
            raise
        self._stream.reconnected()
        self._replication = replication

    def _changes(self) -> list[SourceRecord] | None:
        stream, replication = self._stream, self._replication
        assert stream is not None
        assert replication is not None
        found: list[SourceRecord] = []
        try:
            self._read_into(found, stream, replication)
        except RetriableError as error:
            if not found:
                raise
            logger.warning("event=replication-lost server=%r error=%r", self._envelopes.partition["server"], str(error))
            self._let_go()  # what the stream has made of the log counts as given: the next poll goes on behind it
        return found or None

    def _read_into(self, found: list[SourceRecord], stream: ChangeStream, replication: "ReplicationConnection") -> None:
        wait_s, most = min(self._config["poll.interval.ms"] / 1000, 0.5), self._config["max.batch.size"]
        while len(found) < most and not self._stop.is_set():
            frame = replication.receive(0 if found else wait_s)
            if frame is None:
                break
            if isinstance(frame, Keepalive):
                stream.idle_at(frame.end_lsn)
                if frame.reply_wanted:
                    self._tell()
                wait_s = 0
            else:
                found += stream.on(decode(frame.payload), frame.start_lsn, time.time_ns())
        now = time.monotonic()
        if now - self._told_at >= self._config["status.update.interval.ms"] / 1000:
            self._tell()
        interval_s = self._config["heartbeat.interval.ms"] / 1000
        if interval_s and now - self._beaten_at >= interval_s:
            found += self._heartbeat(stream)

    def _heartbeat(self, stream: ChangeStream) -> list[SourceRecord]:
        self._beaten_at = time.monotonic()
        if self._config["heartbeat.action.query"]:
            self._server.run(self._config["heartbeat.action.query"])
        return [self._envelopes.heartbeat(time.time_ns() // 1_000_000, stream.heartbeat_offset())]

    def commit(self) -> None:
        """The offset that is stored now is what a new start would go on from: the server may forget what is before
        it.
        """
        stored = self.context.offset_reader.offset(self._envelopes.partition)
        if stored is None or is_unfinished(stored) or self._stream is None:
            return
        self._stored = stored
        self._flushed = max(self._flushed, int(stored.get("lsn") or 0))

    def _tell(self) -> None:
        """A log without changes of ours is confirmed as soon as all that was given is committed."""
        stream, replication = self._stream, self._replication
        assert stream is not None
        assert replication is not None
        if stream.offset is None or stream.offset == self._stored:
            self._flushed = max(self._flushed, stream.finished_lsn)
        replication.send_status(max(stream.finished_lsn, self._flushed), self._flushed)
        self._told_at = time.monotonic()

    def _described(self, relation: Relation) -> TableModel | None:
        if not self._filter.wanted(relation.schema, relation.table):
            return None
        if any(each.type_oid not in self._types for each in relation.columns):
            self._types = self._server.types()
        return self._model(self._server.described(relation))

    def _model(self, table: Table) -> TableModel:
        return TableModel(table, self._types, self._modes, self._rules, self._naming, SOURCE_SCHEMA, TRANSACTION_SCHEMA)

    # ---- the end

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        if not hasattr(self, "_server"):
            return  # `start` did not come so far
        if self._replication is not None:
            with contextlib.suppress(ConnectError):
                self._tell()
        self._let_go()
        if self._config["slot.drop.on.stop"]:
            self._server.drop_slot(self._config["slot.name"])
        self._server.close()

    def _let_go(self) -> None:
        """A snapshot that is not through goes on with the table that it was at."""
        self._snapshot = None
        replication, self._replication = self._replication, None
        if replication is not None:
            replication.close()
        with contextlib.suppress(ConnectError):
            self._resources.close()
        self._server.close()


def _modes(config: Mapping[str, Any]) -> Modes:
    return Modes(
        decimal=config["decimal.handling.mode"],
        time=config["time.precision.mode"],
        binary=config["binary.handling.mode"],
        interval=config["interval.handling.mode"],
        hstore=config["hstore.handling.mode"],
        unavailable=config["unavailable.value.placeholder"],
        unknown_as_bytes=config["include.unknown.datatypes"],
        money_digits=config["money.fraction.digits"],
    )


def _names(config: Mapping[str, Any], content: s.Schema) -> Names:
    prefix, delimiter = config["topic.prefix"], config["topic.delimiter"]
    heartbeats = config["topic.heartbeat.prefix"] or config["heartbeat.topics.prefix"]
    headers = []
    if config["extended.headers.enabled"]:
        said = {"connectorLogicalName": prefix, "taskId": "0", "connectorName": "postgresql", "runId": str(uuid.uuid4())}  # fmt: skip
        headers = [Header(f"__debezium.context.{name}", s.STRING, value) for name, value in said.items()]
    return Names(
        prefix,
        config["database.dbname"],
        delimiter.join((prefix, config["topic.transaction"])),
        config["topic.heartbeat.name"] or delimiter.join((heartbeats, prefix)),
        delimiter.join((prefix, "message")),
        tuple(headers),
        content,
    )


def _settings(config: Mapping[str, Any], encode: Any) -> Settings:
    include, exclude = Patterns(config["message.prefix.include.list"]), Patterns(config["message.prefix.exclude.list"])
    mode = config["event.processing.failure.handling.mode"]

    def left_out(error: DataError) -> None:
        if mode == "warn":
            logger.warning("event=row-left-out error=%r", str(error))

    return Settings(
        tombstones=config["tombstones.on.delete"],
        transactions=config["provide.transaction.metadata"],
        skipped=frozenset(config["skipped.operations"]) - {"none"},
        skips_unchanged=config["skip.messages.without.change"],
        message_wanted=lambda prefix: include.match(prefix) if include else not exclude.match(prefix),
        content=encode,
        on_failure=None if mode == "fail" else left_out,
    )


class PostgresCdcConnector(SourceConnector):
    doc = "Changes of PostgreSQL's tables by logical replication, in Debezium's envelope: rows first, then every change in the order of commits."
    aliases = ("io.debezium.connector.postgresql.PostgresConnector",)
    config_def = options.CONFIG_DEF
    task_class = PostgresCdcTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One: a slot has one reader."""
        del max_tasks
        return [dict(self.props)]

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        options.check(props, found)

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        prefix = props.get("topic.prefix", "").strip()
        for partition, offset in offsets:
            if offset is None:  # also of the prefix that the connector had before
                continue
            if partition != {"server": prefix}:
                raise ConnectError(f"The partition of this connector is {{'server': {prefix!r}}}")
            if not isinstance(offset.get("lsn"), int):
                raise ConnectError("An offset of PostgresCdc has an LSN as a number: {'lsn': 123}")
        return True
