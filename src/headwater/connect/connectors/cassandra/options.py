"""The properties of CassandraSink: those of the connection, and `topic.<topic>.<keyspace>.<table>.<setting>` for each
table.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, PORT, flag, listing, secret, text, whole
from headwater.connect.connectors.cassandra.mapping import NOW, Source, parse
from headwater.connect.errors import ConfigError

CONFIG_DEF: Final = ConfigDef(
    listing("contactPoints", ["127.0.0.1"], HIGH, "Hosts of the cluster, some of them."),
    whole("port", 9042, HIGH, "Their port.", PORT),
    text("loadBalancing.localDc", "", HIGH, "The data center to write to; needed with contactPoints."),
    whole("maxConcurrentRequests", 500, MEDIUM, "How many rows are on their way at once.", AtLeast(1)),
    whole("maxNumberOfRecordsInBatch", 32, LOW, "Taken and not needed: each row is a request of its own.", AtLeast(1)),
    whole("queryExecutionTimeout", 30, MEDIUM, "How long a request may take (s).", AtLeast(1)),
    text("compression", "None", LOW, "Of requests: None, LZ4 or Snappy (which needs python-snappy).", OneOf("None", "LZ4", "Snappy")),
    text("ignoreErrors", "None", MEDIUM, "None: a record that cannot be written goes to the dead letter topic or ends the task, by errors.tolerance. Driver: rows that the database refuses are passed over and logged. All: records that do not fit are, too.", OneOf("None", "All", "Driver", "true", "false")),
    text("auth.provider", "None", HIGH, "None or PLAIN.", OneOf("None", "PLAIN")),
    text("auth.username", "", HIGH, "The user."),
    secret("auth.password", "", HIGH, "Its password."),
    text("ssl.provider", "None", MEDIUM, "None; JDK or OpenSSL: TLS, by Python's ssl.", OneOf("None", "JDK", "OpenSSL")),
    flag("ssl.hostnameValidation", True, MEDIUM, "Whether a host's certificate must have its name."),
    text("ssl.truststore.path", None, MEDIUM, "Certificates to trust: a PEM, PKCS#12 or JKS file; the system's if there is none."),
    secret("ssl.truststore.password", None, MEDIUM, "Its password."),
    text("ssl.keystore.path", None, MEDIUM, "A key and certificate of one's own: a PEM, PKCS#12 or JKS file."),
    secret("ssl.keystore.password", None, MEDIUM, "Its password."),
)  # fmt: skip
REFUSED: Final = (
    "cloud.secureConnectBundle", "connectionPoolLocalSize", "jmx", "jmxConnectorDomain", "metricsHighestLatency", "ssl.cipherSuites",
    "ssl.openssl.keyCertChain", "ssl.openssl.privateKey", "auth.gssapi.keyTab", "auth.gssapi.principal", "auth.gssapi.service",
)  # fmt: skip
CONSISTENCY: Final = (
    "ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"
)  # fmt: skip
_SETTINGS: Final = (
    "mapping", "consistencyLevel", "ttl", "ttlTimeUnit", "timestampTimeUnit", "nullToUnset", "deletesEnabled", "query"
)  # fmt: skip
_TABLE: Final = re.compile(rf'topic\.(.+)\.("[^"]+"|\w+)\.("[^"]+"|\w+)\.({"|".join(_SETTINGS)})')
NANOSECONDS: Final = {
    "NANOSECONDS": 1, "MICROSECONDS": 10**3, "MILLISECONDS": 10**6, "SECONDS": 10**9, "MINUTES": 60 * 10**9,
    "HOURS": 3600 * 10**9, "DAYS": 86400 * 10**9,
}  # fmt: skip


class TableOptions(NamedTuple):
    topic: str
    keyspace: str
    table: str
    mapping: Mapping[str, Source]
    consistency: str = "LOCAL_ONE"
    ttl: int = -1
    ttl_unit: str = "SECONDS"
    timestamp_unit: str = "MICROSECONDS"
    null_to_unset: bool = True
    deletes: bool = True
    query: str | None = None


def unsupported(props: Mapping[str, str]) -> list[str]:
    """Properties of the connector that this follows which have no effect here."""
    return sorted(
        name
        for name in props
        if name in REFUSED
        or name.startswith("datastax-java-driver.")
        or (name.startswith("topic.") and not name.startswith("topic.creation.") and _TABLE.fullmatch(name) is None)
    )


def tables_of(props: Mapping[str, str]) -> list[TableOptions]:
    """Raises ConfigError, with the name of the property."""
    given: dict[tuple[str, str, str], dict[str, str]] = {}
    for name, value in props.items():
        found = _TABLE.fullmatch(name)
        if found is not None:
            place = (found[1], found[2].strip('"'), found[3].strip('"'))
            given.setdefault(place, {})[found[4]] = value.strip()
    return [_options(place, settings) for place, settings in sorted(given.items())]


def _options(place: tuple[str, str, str], given: Mapping[str, str]) -> TableOptions:
    prefix = ".".join(("topic", *place))
    if "mapping" not in given:
        raise ConfigError(f"{prefix}.mapping is missing", name=f"{prefix}.mapping")
    try:
        mapping = parse(given["mapping"])
    except ConfigError as error:
        raise ConfigError(f"{prefix}.{error}", name=f"{prefix}.mapping") from None
    if not any(source.part != NOW for source in mapping.values()):
        raise ConfigError(f"{prefix}.mapping: no column comes from the record", name=f"{prefix}.mapping")
    try:
        ttl = int(given.get("ttl", "-1"))
    except ValueError:
        raise ConfigError(f"{prefix}.ttl: a whole number is needed", name=f"{prefix}.ttl") from None
    units = tuple(NANOSECONDS)
    made = TableOptions(
        *place,
        mapping,
        _one_of(prefix, given, "consistencyLevel", "LOCAL_ONE", CONSISTENCY),
        ttl,
        _one_of(prefix, given, "ttlTimeUnit", "SECONDS", units),
        _one_of(prefix, given, "timestampTimeUnit", "MICROSECONDS", units),
        _one_of(prefix, given, "nullToUnset", "TRUE", ("TRUE", "FALSE")) == "TRUE",
        _one_of(prefix, given, "deletesEnabled", "TRUE", ("TRUE", "FALSE")) == "TRUE",
        given.get("query"),
    )
    if made.query is not None and made.deletes:
        raise ConfigError(f"{prefix}.query needs {prefix}.deletesEnabled=false", name=f"{prefix}.query")
    return made


def _one_of(prefix: str, given: Mapping[str, str], name: str, default: str, known: tuple[str, ...]) -> str:
    found = given.get(name, default).upper()
    if found not in known:
        raise ConfigError(f"{prefix}.{name} is one of {', '.join(known)}", name=f"{prefix}.{name}")
    return found
