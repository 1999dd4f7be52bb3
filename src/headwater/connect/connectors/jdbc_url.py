"""Which database an address means: `jdbc:sqlite:/path`, `jdbc:postgresql://host:port/database`, `jdbc:mariadb://...` or
`jdbc:mysql://...`.

The `jdbc:` may be left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyText, TimeZone, secret, text
from headwater.connect.connectors.jdbc_dialects import Dialect, Sqlite
from headwater.connect.connectors.jdbc_mariadb import Mariadb
from headwater.connect.connectors.jdbc_postgresql import Postgresql
from headwater.connect.errors import ConfigError

CONNECTION_KEYS: Final = (
    text("connection.url", REQUIRED, HIGH, "jdbc:sqlite:/path, jdbc:postgresql://host:port/database, jdbc:mariadb://host:port/database or jdbc:mysql://host:port/database.", NonEmptyText()),
    text("connection.user", None, HIGH, "The user."),
    text("db.timezone", "UTC", MEDIUM, "The zone of timestamps in columns that have none, such as Europe/Berlin: when they are read, compared and written. Of PostgreSQL's TIMESTAMP and MariaDB's DATETIME; SQLite's are UTC. In the hour that such a zone has twice, rows of mode=timestamp may be missed.", TimeZone()),
    secret("connection.password", None, HIGH, "Its password; better a reference to a config provider."),
    text("dialect.name", "", LOW, "Taken if it is the one that connection.url means: SqliteDatabaseDialect, PostgreSqlDatabaseDialect or MySqlDatabaseDialect."),
    text("quote.sql.identifiers", "always", MEDIUM, "always: names of tables and columns are those of the database to the letter. never: with PostgreSQL they are taken as it takes names without quotation marks, in small letters.", OneOf("always", "never", ignore_case=True)),
)  # fmt: skip


_DONE: Final[Mapping[str, str]] = {  # what other properties of the original ask for that is done here anyway
    "date.calendar.system": "PROLEPTIC_GREGORIAN",
    "date.timezone": "UTC",
    "jdbc.credentials.provider.class": "io.confluent.connect.jdbc.util.DefaultJdbcCredentialsProvider",
    "max.buffer.size": "0",
    "mssql.use.merge.holdlock": "true",
    "poll.linger.ms": "5000",
    "query.retry.attempts": "-1",
    "table.monitoring.startup.polling.limit.ms": "10000",
    "transaction.isolation.mode": "DEFAULT",
    "trim.sensitive.log": "false",
}


def dialect_of(config: Mapping[str, Any]) -> Dialect:
    made = _dialect_of(config)
    made.folds_names = str(config.get("quote.sql.identifiers")).lower() == "never"
    return made


def _dialect_of(config: Mapping[str, Any]) -> Dialect:
    url = str(config["connection.url"]).removeprefix("jdbc:")
    if url.startswith("sqlite:"):
        path = unquote(url.removeprefix("sqlite:"))
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        if not path or ":memory:" in path or "?" in path:
            raise ConfigError(
                "connection.url: a file is needed, as in jdbc:sqlite:/var/lib/my.db", name="connection.url"
            )
        return Sqlite(path)
    user, password = config["connection.user"], config["connection.password"]
    if url.startswith(("postgresql://", "postgres://")):
        return Postgresql(url, user, password, config["db.timezone"])
    if url.startswith(("mariadb://", "mysql://")):
        try:
            return Mariadb(urlsplit(url), user, password, config.get("db.timezone", "UTC"))
        except ValueError:  # a port that is none; the address itself may have a password in it
            raise ConfigError("connection.url: not an address: jdbc:mariadb://host:port/database", name="connection.url") from None  # fmt: skip
    raise ConfigError(
        "connection.url: jdbc:sqlite:/path, jdbc:postgresql://host/database or jdbc:mariadb://host/database",
        name="connection.url",
    )


def refuse(props: Mapping[str, str], found: dict[str, ConfigValue], names: Sequence[str]) -> None:
    """Properties of the original that have no effect here are refused, never ignored; but for those that ask for what
    is done here anyway. Other `connection.*` are for Java's driver, and `jdbc.credentials.provider.*` is a class of
    Java's.
    """
    for name, value in props.items():
        of_java = name.startswith(("connection.", "jdbc.credentials.provider.")) and name not in found
        if (name in names or of_java) and value != _DONE.get(name):
            found["connection.url"].errors.append(f"{name} is not supported here; remove it")


def check_url(found: dict[str, ConfigValue]) -> None:
    if found["connection.url"].errors:
        return
    if found["db.timezone"].value != "UTC" and "sqlite:" in str(found["connection.url"].value):
        found["db.timezone"].errors.append("SQLite's timestamps are UTC")
    if found["db.timezone"].errors:
        return
    try:
        dialect = dialect_of({name: each.value for name, each in found.items()})
    except ConfigError as error:
        found["connection.url"].errors.append(str(error))
        return
    if found["dialect.name"].value not in ("", None, dialect.java_name):
        found["dialect.name"].errors.append(f"connection.url is one of {dialect.java_name}")
