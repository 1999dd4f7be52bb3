"""Broker properties: who the broker is, where it listens, and the limits on connections and requests."""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Importance
from headwater.base.config.validators import AddressCounts, AtLeast, Between, NotEmpty, OneOf

BOOLEAN, STRING, INT, LONG, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)
CLUSTER, PER_BROKER = DynamicMode.CLUSTER_WIDE, DynamicMode.PER_BROKER
HIGH, LOW = Importance.HIGH, Importance.LOW

INT_MAX: Final = 2**31 - 1
DEFAULT_PROTOCOL_MAP: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

# fmt: off
# one row, one line
DEFINITIONS: Final = (
    Definition("node.id", INT, 0, "The number of this broker in its cluster.", AtLeast(0), importance=HIGH),
    Definition("broker.id", INT, -1, "The older name of node.id; if both are set they must agree.", AtLeast(-1), importance=HIGH),
    Definition("broker.rack", STRING, None, "The rack or zone of this broker: told to clients, and used to spread replicas."),
    Definition("listeners", LIST, ["PLAINTEXT://:9092"], "Where the broker accepts connections, as NAME://host:port; no host means all interfaces, port 0 any free port.", NotEmpty(), PER_BROKER, HIGH),
    Definition("advertised.listeners", LIST, None, "The addresses that clients are told to connect to, where they differ from the listeners.", NotEmpty(), importance=HIGH),
    Definition("host.name", STRING, None, "The host of the only listener, as older versions of Apache Kafka had it; counts if listeners is not set.", hidden=True),
    Definition("port", INT, None, "The port of the only listener, as older versions of Apache Kafka had it; counts if listeners is not set.", Between(0, 65535), hidden=True),
    Definition("advertised.host.name", STRING, None, "The host that clients are told; counts if advertised.listeners is not set.", hidden=True),
    Definition("advertised.port", INT, None, "The port that clients are told; counts if advertised.listeners is not set.", Between(0, 65535), hidden=True),
    Definition("listener.security.protocol.map", STRING, DEFAULT_PROTOCOL_MAP, "Which security protocol each listener name speaks, as NAME:PROTOCOL pairs.", None, PER_BROKER, LOW),
    Definition("inter.broker.listener.name", STRING, None, "The listener that brokers use among themselves; the first one if unset."),
    Definition("security.inter.broker.protocol", STRING, "PLAINTEXT", "The security protocol between brokers: the listener that speaks it is used. inter.broker.listener.name says it better; only one of them may be set.", OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    Definition("num.network.threads", INT, 3, "Taken and explained: one event loop serves all connections here. For more cores, run more brokers.", AtLeast(1), CLUSTER, HIGH, used=False),
    Definition("num.io.threads", INT, 8, "Taken and explained: requests run on the event loop; only waiting for the disk is handed to threads.", AtLeast(1), CLUSTER, HIGH, used=False),
    Definition("socket.request.max.bytes", INT, 104857600, "The largest request that a connection may send; a larger one closes it, and so does one that names more than 500,000 things (topics, partitions, members).", AtLeast(1), importance=HIGH),
    Definition("socket.send.buffer.bytes", INT, 102400, "The kernel's send buffer of a connection (SO_SNDBUF); -1 leaves it to the system.", AtLeast(-1), importance=HIGH, used=False),
    Definition("socket.receive.buffer.bytes", INT, 102400, "The kernel's receive buffer of a connection (SO_RCVBUF); -1 leaves it to the system.", AtLeast(-1), importance=HIGH, used=False),
    Definition("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.", AtLeast(1), used=False),
    Definition("queued.max.request.bytes", LONG, -1, "Memory that requests in progress may hold together; beyond it the broker stops reading. -1: no limit of this kind."),
    Definition("queued.max.requests", INT, 500, "How many requests may wait before the broker stops reading from connections.", AtLeast(1), importance=HIGH, used=False),
    Definition("max.connections", INT, INT_MAX, "How many connections the broker holds at once; further ones are closed.", AtLeast(0), CLUSTER),
    Definition("max.connections.per.ip", INT, INT_MAX, "How many connections one address may hold.", AtLeast(0), CLUSTER),
    Definition("max.connections.per.ip.overrides", STRING, "", "Addresses with their own limit of connections, as host:count pairs. The addresses are compared as they are written: no names.", AddressCounts(), CLUSTER),
    Definition("max.connection.creation.rate", INT, INT_MAX, "How many connections are accepted per second; further ones wait. The listener between brokers is exempt, if there are others.", AtLeast(0), CLUSTER),
    Definition("connections.max.idle.ms", LONG, 600000, "A connection without a request for this long is closed."),
    Definition("request.timeout.ms", INT, 30000, "How long the broker waits for another broker's answer.", importance=HIGH),
    Definition("fetch.max.bytes", INT, 57671680, "The most that one fetch returns, whatever the client asks for.", AtLeast(1024)),
    Definition("max.incremental.fetch.session.cache.slots", INT, 1000, "How many fetch sessions the broker remembers.", AtLeast(0)),
    Definition("max.request.partition.size.limit", INT, 2000, "How many partitions one DescribeTopicPartitions answer holds.", AtLeast(1)),
    Definition("metrics.listener", STRING, None, "Headwater's own: where metrics are served to other machines, as https://host:port; TLS by listener.name.metrics.ssl.* or ssl.*. metrics.port goes on beside it, for this machine."),
    Definition("metrics.authentication.method", LIST, ["NONE"], "Headwater's own: how one logs in at metrics.listener: NONE, or BASIC (a user and a password of the cluster), BEARER (a token, by sasl.oauthbearer.* or listener.name.metrics.sasl.oauthbearer.*), or both; the user needs DESCRIBE on the cluster where rights are checked."),
    Definition("metrics.port", INT, -1, "Headwater's own: where metrics are served as Prometheus text; -1 for nowhere, 0 for any free port.", Between(-1, 65535)),
    Definition("headwater.audit.topic", STRING, None, "Headwater's own: the topic of the audit trail: logins, refused logins and rights, and what administrators change, one JSON object per record. It is made on first use, with one partition; empty for none."),
    Definition("headwater.schema.registry.url", LIST, None, "Headwater's own: the schema registry that is asked about records of topics with schema validation; several addresses with commas are tried in turn.", may_hold_login=True),
    Definition("confluent.schema.registry.url", LIST, None, "Confluent's name of headwater.schema.registry.url.", hidden=True, may_hold_login=True),
    Definition("headwater.schema.registry.timeout.ms", INT, 10000, "Headwater's own: how long a produce request waits for the schema registry before it is told REQUEST_TIMED_OUT.", Between(1, 600000)),
    Definition("confluent.basic.auth.user.info", ConfigType.PASSWORD, None, "user:password at the schema registry.", hidden=True),
    Definition("log.format", STRING, "text", "Headwater's own: how the broker writes its own log, for people or one JSON object per line.", OneOf("text", "json")),
)
# fmt: on
