"""The properties of PostgresCdc: Debezium's for PostgreSQL, honoured, or refused by name."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf
from headwater.connect.config.definition import ConfigDef, ConfigValue, Recommender
from headwater.connect.config.keys import (  # fmt: skip
    HIGH,
    LOW,
    MEDIUM,
    PORT,
    REQUIRED,
    NonEmptyText,
    flag,
    listing,
    long,
    secret,
    text,
    whole,
)
from headwater.connect.connectors.postgres_cdc.column_rules import ColumnRules, TableFilter
from headwater.connect.connectors.postgres_cdc.replica_identity import NAME, ReplicaIdentities
from headwater.connect.connectors.postgres_cdc.temporal_types import TIME_MODES
from headwater.connect.errors import ConfigError
from headwater.connect.java_regex import compile_java

SNAPSHOT_MODES: Final = ("initial", "initial_only", "no_data", "always", "when_needed")
SLOT_NAME: Final = r"[a-z0-9_]{1,63}"


def _choices(*values: str) -> dict[str, Any]:
    return {"recommender": Recommender(values=lambda _name, _values: values)}


class _SlotName:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, str) and compile_java(SLOT_NAME).fullmatch(value) is None:
            raise ConfigValueError(name, value, "lower case letters, digits and underscores, at most 63")

    def __str__(self) -> str:
        return "lower case letters, digits and underscores"


class _Prefix:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, str) and compile_java(r"[A-Za-z0-9._-]+").fullmatch(value) is None:
            raise ConfigValueError(name, value, "letters, digits, dots, hyphens and underscores")

    def __str__(self) -> str:
        return "letters, digits, dots, hyphens and underscores"


CONFIG_DEF: Final = ConfigDef(
    text("topic.prefix", REQUIRED, HIGH, "The name of this server: topics are <topic.prefix>.<schema>.<table>.", _Prefix()),
    text("database.hostname", REQUIRED, HIGH, "The server's host, or the directory of its unix socket.", NonEmptyText()),
    whole("database.port", 5432, HIGH, "Its port.", PORT),
    text("database.user", REQUIRED, HIGH, "The user: with REPLICATION, SELECT on the tables, and CREATE on the database where the publication is to be made."),
    secret("database.password", None, HIGH, "Its password; better a reference to a config provider."),
    text("database.dbname", REQUIRED, HIGH, "The database.", NonEmptyText()),
    text("plugin.name", "pgoutput", MEDIUM, "The plugin of logical decoding: pgoutput, which every server since 10 has.", OneOf("pgoutput", ignore_case=True), **_choices("pgoutput")),
    text("slot.name", "debezium", MEDIUM, "The replication slot. It is made by the first start and survives stops; one connector has one.", _SlotName()),
    text("publication.name", "dbz_publication", MEDIUM, "The publication, which says whose changes are sent.", NonEmptyText()),
    text("publication.autocreate.mode", "all_tables", MEDIUM, "Which publication is made if there is none. all_tables: for all, which needs a superuser. filtered: for the tables that are wanted; it is changed when others are wanted. no_tables: an empty one. disabled: none, it must be there.", OneOf("all_tables", "filtered", "no_tables", "disabled", ignore_case=True), **_choices("all_tables", "filtered", "no_tables", "disabled")),
    text("replica.identity.autoset.values", None, MEDIUM, "Which REPLICA IDENTITY tables get when the connector begins, which needs their owner's rights: schema.table:FULL, or DEFAULT, NOTHING, INDEX and a name, with commas between; tables by patterns."),
    flag("publish.via.partition.root", False, MEDIUM, "Whether changes of partitions are told as changes of the table that they are partitions of."),
    flag("slot.drop.on.stop", False, MEDIUM, "Whether the slot goes when the task stops; changes until the next start are then lost. For tests."),
    flag("slot.failover", False, MEDIUM, "Whether the slot is one that standbys keep too: PostgreSQL 17 and newer."),
    text("slot.stream.params", None, LOW, "Further options of the plugin: name=value;name=value."),
    text("database.initial.statements", None, LOW, "SQL that each connection runs first; not the one of the replication."),
    whole("database.query.timeout.ms", 600_000, LOW, "How long (ms) a query may take; 0: for ever.", AtLeast(0)),
    text("database.sslmode", "prefer", MEDIUM, "disable, allow, prefer, require, verify-ca or verify-full, as libpq has them.", OneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full", ignore_case=True), **_choices("disable", "prefer", "require", "verify-ca", "verify-full")),
    text("database.sslcert", None, MEDIUM, "A file with the client's certificate (PEM)."),
    text("database.sslkey", None, MEDIUM, "A file with its key."),
    secret("database.sslpassword", None, MEDIUM, "The key's password."),
    text("database.sslrootcert", None, MEDIUM, "A file with the authorities that the server's certificate may come from."),
    flag("database.tcpKeepAlive", True, MEDIUM, "Whether TCP looks after silent connections."),
    whole("status.update.interval.ms", 10_000, MEDIUM, "How often (ms) the server is told what it may forget.", AtLeast(1)),
    text("snapshot.mode", "initial", MEDIUM, "initial: all rows once, then changes. initial_only: all rows once. no_data: changes only. always: all rows at every start. when_needed: as initial, and again if the slot is gone.", OneOf(*SNAPSHOT_MODES, ignore_case=True), **_choices(*SNAPSHOT_MODES)),
    listing("snapshot.include.collection.list", [], MEDIUM, "Patterns of the tables of the snapshot; all that are wanted if there is no list."),
    listing("snapshot.select.statement.overrides", [], MEDIUM, "Tables (schema.table) whose rows come from a statement of their own: snapshot.select.statement.overrides.<schema>.<table>. It must give all columns."),
    listing("schema.include.list", [], HIGH, "Patterns of the schemas that are wanted."),
    listing("schema.exclude.list", [], MEDIUM, "Patterns of those that are not."),
    listing("table.include.list", [], HIGH, "Patterns of the tables (schema.table) that are wanted."),
    listing("table.exclude.list", [], MEDIUM, "Patterns of those that are not."),
    listing("column.include.list", [], MEDIUM, "Patterns of the columns (schema.table.column) that are wanted. Columns of the primary key always are."),
    listing("column.exclude.list", [], MEDIUM, "Patterns of those that are not."),
    text("message.key.columns", "", MEDIUM, "Other keys than the primary one: schema.table:column,column;..."),
    listing("column.propagate.source.type", [], MEDIUM, "Patterns of columns whose type in the database stands in their schema's parameters."),
    listing("datatype.propagate.source.type", [], MEDIUM, "Patterns of types for which it does."),
    flag("include.unknown.datatypes", False, MEDIUM, "Whether columns of types that are not known here become bytes; otherwise they are left out."),
    text("decimal.handling.mode", "precise", MEDIUM, "NUMERIC and MONEY. precise: Connect's Decimal, or a struct with its scale where the column has none. double: floats. string: text.", OneOf("precise", "double", "string", ignore_case=True), **_choices("precise", "double", "string")),
    whole("money.fraction.digits", 2, LOW, "How many digits MONEY has behind the point.", AtLeast(0)),
    text("time.precision.mode", "adaptive", MEDIUM, "Dates and times. adaptive: milliseconds or microseconds, by the column. adaptive_time_microseconds: TIME always in microseconds. connect: Connect's types. isostring: text. microseconds, nanoseconds. Those with a time zone are text.", OneOf(*TIME_MODES, ignore_case=True), **_choices(*TIME_MODES)),
    text("interval.handling.mode", "numeric", LOW, "INTERVAL. numeric: microseconds, a month counted as 30.4375 days. string: ISO's text.", OneOf("numeric", "string", ignore_case=True), **_choices("numeric", "string")),
    text("hstore.handling.mode", "json", LOW, "HSTORE. json: text. map: a map.", OneOf("json", "map", ignore_case=True), **_choices("json", "map")),
    text("binary.handling.mode", "bytes", LOW, "BYTEA. bytes, or texts: base64, base64-url-safe, hex.", OneOf("bytes", "base64", "base64-url-safe", "hex", ignore_case=True), **_choices("bytes", "base64", "base64-url-safe", "hex")),
    text("unavailable.value.placeholder", "__debezium_unavailable_value", MEDIUM, "What stands for a large value (TOAST) that an update has not touched, and the log has not. REPLICA IDENTITY FULL gives the value.", NonEmptyText()),
    text("schema.name.adjustment.mode", "none", LOW, "avro: characters that Avro's names cannot have become underscores in schema names.", OneOf("none", "avro", ignore_case=True), **_choices("none", "avro")),
    text("field.name.adjustment.mode", "none", LOW, "The same for field names.", OneOf("none", "avro", ignore_case=True), **_choices("none", "avro")),
    flag("tombstones.on.delete", True, MEDIUM, "Whether a deletion is followed by a record without a value, so that compaction takes the key away."),
    listing("skipped.operations", ["t"], LOW, "What is left out: c, u, d, t (truncations), m (messages), or none."),
    flag("skip.messages.without.change", False, LOW, "Whether an update that changes no wanted column (column.include.list) is left out. It is seen with REPLICA IDENTITY FULL alone."),
    listing("message.prefix.include.list", [], MEDIUM, "Patterns of the prefixes of messages (pg_logical_emit_message) that are wanted."),
    listing("message.prefix.exclude.list", [], MEDIUM, "Patterns of those that are not."),
    flag("provide.transaction.metadata", False, LOW, "Whether each change says which place it has in its transaction, and <topic.prefix>.transaction has a record for each beginning and end."),
    flag("extended.headers.enabled", True, LOW, "Whether records have the headers __debezium.context.*."),
    whole("heartbeat.interval.ms", 0, MEDIUM, "How often (ms) a heartbeat record is written, so that offsets move on where the wanted tables rest; 0: never.", AtLeast(0)),
    text("topic.heartbeat.prefix", None, LOW, "Heartbeats go to <this>.<topic.prefix>; heartbeat.topics.prefix if it is not given."),
    text("heartbeat.topics.prefix", "__debezium-heartbeat", LOW, "An older name of topic.heartbeat.prefix."),
    text("topic.heartbeat.name", None, LOW, "The topic of heartbeats, instead."),
    text("heartbeat.action.query", None, LOW, "SQL that is run with each heartbeat."),
    text("topic.delimiter", ".", MEDIUM, "What stands between the parts of a topic's name.", NonEmptyText()),
    text("topic.transaction", "transaction", LOW, "The last part of the name of the topic with transactions.", NonEmptyText()),
    whole("max.batch.size", 2048, MEDIUM, "Records that one poll gives at most, but for those of one change.", AtLeast(1)),
    whole("max.queue.size", 8192, LOW, "Taken and not needed: there is no queue between the log and the producer's own.", AtLeast(1)),
    long("poll.interval.ms", 500, MEDIUM, "How long (ms) a poll waits for changes.", AtLeast(1)),
    text("event.processing.failure.handling.mode", "fail", MEDIUM, "A row that cannot be read: fail, or leave it out with (warn) or without (skip) a line in the log.", OneOf("fail", "warn", "skip", ignore_case=True), **_choices("fail", "warn", "skip")),
)  # fmt: skip

# Debezium's own that have no effect here: told, never ignored.
_REFUSED: Final = ("converters", "post.processors", "signal.data.collection", "signal.enabled.channels", "signal.poll.interval.ms", "notification.enabled.channels", "notification.sink.topic.name", "incremental.snapshot.chunk.size", "incremental.snapshot.watermarking.strategy", "incremental.snapshot.allow.schema.changes", "read.only", "snapshot.mode.custom.name", "snapshot.isolation.mode", "snapshot.query.mode", "snapshot.query.mode.custom.name", "snapshot.locking.mode", "snapshot.locking.mode.custom.name", "snapshot.lock.timeout.ms", "snapshot.delay.ms", "streaming.delay.ms", "snapshot.fetch.size", "snapshot.max.threads", "snapshot.max.threads.multiplier", "legacy.snapshot.max.threads", "snapshot.tables.order.by.row.count", "schema.refresh.mode", "xmin.fetch.interval.ms", "lsn.flush.mode", "lsn.flush.timeout.ms", "lsn.flush.timeout.action", "flush.lsn.source", "slot.max.retries", "slot.retry.delay.ms", "errors.max.retries", "retriable.restart.connector.wait.ms", "database.sslfactory", "max.queue.size.in.bytes", "query.fetch.size", "topic.naming.strategy", "topic.cache.size", "transaction.metadata.factory", "sourceinfo.struct.maker", "custom.metric.tags", "custom.sanitize.pattern", "include.schema.comments", "table.ignore.builtin", "memory.management.schemas.class", "memory.management.tables.class", "statistics.metrics.enabled", "guardrail.collections.max", "guardrail.collections.limit.action", "offset.mismatch.strategy", "executor.shutdown.timeout.ms", "create.slot.command.timeout", "slot.seek.to.known.offset.on.start", "event.converting.failure.handling.mode", "custom.retriable.exception", "offset.activity.monitor.interval.ms", "queue.provider.type", "connection.validation.timeout.ms")  # fmt: skip
# What they may ask for, for it is done here anyway; most is what Debezium does unasked.
_DONE: Final[Mapping[str, str]] = {
    "custom.metric.tags": "",
    "errors.max.retries": "-1",
    "flush.lsn.source": "true",
    "guardrail.collections.max": "0",
    "include.schema.comments": "false",
    "incremental.snapshot.allow.schema.changes": "false",
    "max.queue.size.in.bytes": "0",
    "offset.mismatch.strategy": "no_validation",
    "read.only": "false",
    "schema.refresh.mode": "columns_diff",
    "signal.enabled.channels": "source",
    "snapshot.delay.ms": "0",
    "snapshot.isolation.mode": "serializable,repeatable_read",
    "snapshot.locking.mode": "none",
    "snapshot.max.threads": "1",
    "snapshot.query.mode": "select_all",
    "snapshot.tables.order.by.row.count": "disabled",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.postgressourceinfostructmaker",
    "streaming.delay.ms": "0",
    "table.ignore.builtin": "true",
    "topic.naming.strategy": "io.debezium.schema.schematopicnamingstrategy",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.defaulttransactionmetadatafactory",
    "xmin.fetch.interval.ms": "0",
}
_REFUSED_PREFIXES: Final = (
    "snapshot.mode.configuration.based.",
    "openlineage.",
    "internal.",
    "signal.",
    "notification.",
    "guardrail.",
    "driver.",
)


def check(props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
    """What several properties say together."""
    told = found["topic.prefix"].errors
    for name, value in props.items():
        done = name in _DONE and value.strip().lower() in _DONE[name].split(",")
        if (name in _REFUSED or name.startswith(_REFUSED_PREFIXES)) and not done:
            told.append(f"{name} is not supported here; remove it")
    for kind in ("schema", "table", "column"):
        if found[f"{kind}.include.list"].value and found[f"{kind}.exclude.list"].value:
            found[f"{kind}.exclude.list"].errors.append(f"{kind}.include.list, or {kind}.exclude.list: not both")
    skipped = found["skipped.operations"]
    if isinstance(skipped.value, list) and not set(skipped.value) <= {"c", "u", "d", "t", "m", "none"}:
        skipped.errors.append("c, u, d, t, m or none")
    for table in found["snapshot.select.statement.overrides"].value or []:
        if f"snapshot.select.statement.overrides.{table}" not in props:
            found["snapshot.select.statement.overrides"].errors.append(f"The statement of {table} is missing")
    values = {name: each.value for name, each in found.items()}
    if not any(each.errors for each in found.values()):
        makers: tuple[Callable[[], object], ...] = (
            lambda: TableFilter(values),
            lambda: ColumnRules(values, props),
            lambda: ReplicaIdentities(values[NAME]),
        )
        for make in makers:
            try:
                make()
            except ConfigError as error:
                (found[error.name].errors if error.name in found else told).append(str(error))
    try:
        import psycopg  # noqa: F401
    except ImportError:
        told.append("PostgresCdc needs the package psycopg: pip install 'headwater[postgres]'")


def parse(props: Mapping[str, str]) -> dict[str, Any]:
    """All values, those of a few choices in small letters, as Debezium takes them in any."""
    values = CONFIG_DEF.parse(props)
    for key in CONFIG_DEF:
        if isinstance(key.validator, OneOf) and key.validator.ignore_case:
            values[key.name] = values[key.name].lower()
    return values


def parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those of libpq, for both kinds of connection."""
    given = {
        "host": config["database.hostname"],
        "port": config["database.port"],
        "user": config["database.user"],
        "password": config["database.password"],
        "dbname": config["database.dbname"],
        "sslmode": config["database.sslmode"],
        "sslcert": config["database.sslcert"],
        "sslkey": config["database.sslkey"],
        "sslpassword": config["database.sslpassword"],
        "sslrootcert": config["database.sslrootcert"],
        "keepalives": int(config["database.tcpKeepAlive"]),
        "application_name": "headwater-connect",
    }
    return {name: value for name, value in given.items() if value is not None}
