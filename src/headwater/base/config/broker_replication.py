"""Broker properties: replication, and what the coordinators of groups and transactions will read."""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Importance
from headwater.base.config.validators import AtLeast, EachOf, OneOf

BOOLEAN, STRING, INT, SHORT, LONG, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.LIST,
)
CLUSTER = DynamicMode.CLUSTER_WIDE
HIGH, LOW = Importance.HIGH, Importance.LOW
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

# fmt: off
# one row, one line
REPLICATION: Final = (
    Definition("replica.lag.time.max.ms", LONG, 30000, "A follower that has not caught up for this long leaves the in-sync replicas.", AtLeast(1), importance=HIGH),
    Definition("replica.fetch.max.bytes", INT, 1048576, "How much a follower asks for per partition.", AtLeast(0)),
    Definition("replica.fetch.response.max.bytes", INT, 10485760, "How much a follower asks for in one fetch.", AtLeast(0)),
    Definition("replica.fetch.min.bytes", INT, 1, "How much must be there before a follower's fetch is answered.", AtLeast(0), importance=HIGH),
    Definition("replica.fetch.wait.max.ms", INT, 500, "How long a follower's fetch waits at most.", AtLeast(0), importance=HIGH),
    Definition("replica.fetch.backoff.ms", INT, 1000, "How long a follower rests after a failed fetch.", AtLeast(0)),
    Definition("replica.socket.timeout.ms", INT, 30000, "How long a follower waits for its leader's answer.", importance=HIGH),
    Definition("replica.socket.receive.buffer.bytes", INT, 65536, "The kernel's receive buffer of a follower's connection.", importance=HIGH, used=False),
    Definition("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, "How often high watermarks are written down.", AtLeast(1), importance=HIGH),
    Definition("replica.selector.class", STRING, None, "Which replica a consumer is sent to; the leader if unset."),
    Definition("num.replica.fetchers", INT, 1, "How many connections a follower uses per leader.", AtLeast(1), CLUSTER, HIGH, used=False),
    Definition("unclean.leader.election.enable", BOOLEAN, False, "Whether a replica that is not in sync may lead, and lose records.", None, CLUSTER, HIGH),
    Definition("auto.leader.rebalance.enable", BOOLEAN, True, "Whether leadership goes back to preferred replicas by itself.", importance=HIGH),
    Definition("leader.imbalance.check.interval.seconds", LONG, 300, "How often the balance of leaders is looked over.", AtLeast(1), importance=HIGH),
    Definition("leader.imbalance.per.broker.percentage", INT, 10, "Which part of the leaderships that a broker should have may be elsewhere before they go back to it.", AtLeast(0), importance=HIGH, hidden=True),
    Definition("leader.replication.throttled.rate", LONG, LONG_MAX, "Bytes a second that this broker sends, as leader, to replicas that are being moved.", AtLeast(0), CLUSTER, hidden=True),
    Definition("follower.replication.throttled.rate", LONG, LONG_MAX, "Bytes a second that this broker fetches for replicas that are being moved.", AtLeast(0), CLUSTER, hidden=True),
    Definition("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, "Bytes a second that are copied between the log directories of this broker.", AtLeast(0), CLUSTER, hidden=True),
    Definition("controller.quick.failover.enable", BOOLEAN, True, "Headwater's own: whether others lead in place of a broker whose host refuses connections, before its session with ZooKeeper ends."),
    Definition("controlled.shutdown.enable", BOOLEAN, True, "Whether a stopping broker hands its leaderships over first."),
    Definition("zookeeper.connect", STRING, None, "The ZooKeeper ensemble of a cluster, as host:port,host:port/path; unset for one broker on its own.", importance=HIGH, hidden=True),
    Definition("zookeeper.session.timeout.ms", INT, 18000, "How long ZooKeeper waits before it counts a broker as gone.", importance=HIGH, hidden=True),
    Definition("zookeeper.connection.timeout.ms", INT, None, "How long the first connection to ZooKeeper may take; as long as a session if unset.", importance=HIGH, hidden=True),
)
# fmt: on

# fmt: off
# one row, one line
COORDINATION: Final = (
    Definition("offsets.topic.num.partitions", INT, 50, "Partitions of the topic that holds committed offsets.", AtLeast(1), importance=HIGH),
    Definition("offsets.topic.replication.factor", SHORT, 3, "Replicas of the topic that holds committed offsets; no more than there are brokers.", AtLeast(1), importance=HIGH),
    Definition("offsets.topic.segment.bytes", INT, 104857600, "Segment size of the topic that holds committed offsets.", AtLeast(1), importance=HIGH),
    Definition("offsets.topic.compression.codec", INT, 0, "The codec number of the topic that holds committed offsets.", importance=HIGH, used=False),
    Definition("offsets.retention.minutes", INT, 10080, "How long offsets of an empty group are kept.", AtLeast(1), importance=HIGH),
    Definition("offsets.retention.check.interval.ms", LONG, 600000, "How often offsets are looked over for old ones.", AtLeast(1), importance=HIGH),
    Definition("offsets.load.buffer.size", INT, 5242880, "How much is read at a time when a coordinator loads its offsets.", AtLeast(1), importance=HIGH, used=False),
    Definition("offsets.commit.timeout.ms", INT, 5000, "How long a commit waits for its replicas.", AtLeast(1), importance=HIGH, used=False),
    Definition("offset.metadata.max.bytes", INT, 4096, "How long the text beside a committed offset may be.", importance=HIGH),
    Definition("group.min.session.timeout.ms", INT, 6000, "The shortest session timeout that a group member may ask for."),
    Definition("group.max.session.timeout.ms", INT, 1800000, "The longest session timeout that a group member may ask for."),
    Definition("group.max.size", INT, INT_MAX, "How many members a group may have.", AtLeast(1)),
    Definition("group.initial.rebalance.delay.ms", INT, 3000, "How long a new group waits for more members before its first rebalance."),
    Definition("group.coordinator.rebalance.protocols", LIST, ["classic", "consumer", "streams"], "Which group protocols are served.", EachOf("consumer", "classic", "share", "streams")),
    Definition("group.coordinator.threads", INT, 4, "Taken and explained: the event loop runs the coordinators.", AtLeast(1), importance=HIGH, used=False),
    Definition("group.coordinator.append.linger.ms", INT, -1, "How long a coordinator gathers records before it writes them; -1 adapts.", AtLeast(-1), used=False),
    Definition("group.consumer.session.timeout.ms", INT, 45000, "The session timeout of groups with the consumer protocol.", AtLeast(1)),
    Definition("group.consumer.min.session.timeout.ms", INT, 45000, "The shortest session timeout that a group's own config may say.", AtLeast(1)),
    Definition("group.consumer.max.session.timeout.ms", INT, 60000, "The longest session timeout that a group's own config may say.", AtLeast(1)),
    Definition("group.consumer.heartbeat.interval.ms", INT, 5000, "How often members of consumer groups report.", AtLeast(1)),
    Definition("group.consumer.min.heartbeat.interval.ms", INT, 5000, "The shortest heartbeat interval that a group's own config may say.", AtLeast(1)),
    Definition("group.consumer.max.heartbeat.interval.ms", INT, 15000, "The longest heartbeat interval that a group's own config may say.", AtLeast(1)),
    Definition("group.consumer.max.size", INT, INT_MAX, "How many members a consumer group may have.", AtLeast(1)),
    Definition("group.consumer.assignors", LIST, ["uniform", "range"], "The assignors of consumer groups; the first is the default. Class names of Apache Kafka's own two are not taken.", EachOf("uniform", "range")),
    Definition("group.consumer.assignment.interval.ms", INT, 1000, "How often at the most a consumer group computes its assignment anew.", AtLeast(0), CLUSTER),
    Definition("group.consumer.regex.refresh.interval.ms", INT, 600000, "How often the topics of a regular expression are looked up again.", AtLeast(10000), hidden=True),
    Definition("group.consumer.migration.policy", STRING, "bidirectional", "Which way groups may change between the classic and the consumer protocol.", OneOf("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True)),
    Definition("transactional.id.expiration.ms", INT, 604800000, "How long an unused transactional id is remembered.", AtLeast(1), importance=HIGH),
    Definition("transaction.max.timeout.ms", INT, 900000, "The longest transaction timeout that a producer may ask for.", AtLeast(1), importance=HIGH),
    Definition("transaction.state.log.num.partitions", INT, 50, "Partitions of the topic that holds transactions.", AtLeast(1), importance=HIGH),
    Definition("transaction.state.log.replication.factor", SHORT, 3, "Replicas of the topic that holds transactions; no more than there are brokers.", AtLeast(1), importance=HIGH),
    Definition("transaction.state.log.min.isr", INT, 2, "min.insync.replicas of the topic that holds transactions; no more than it has replicas.", AtLeast(1), importance=HIGH),
    Definition("transaction.state.log.segment.bytes", INT, 104857600, "Segment size of the topic that holds transactions.", AtLeast(1), importance=HIGH),
    Definition("transaction.state.log.load.buffer.size", INT, 5242880, "How much is read at a time when a coordinator loads its transactions.", AtLeast(1), importance=HIGH, used=False),
    Definition("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, "How often transactions are looked over for timeouts.", AtLeast(1), importance=LOW, used=False),
    Definition("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, "How often unused transactional ids are forgotten.", AtLeast(1), importance=LOW),
    Definition("transaction.partition.verification.enable", BOOLEAN, True, "Whether a transactional write is checked with its coordinator first.", None, CLUSTER, LOW),
    Definition("transaction.two.phase.commit.enable", BOOLEAN, False, "Whether a transaction may take part in a two-phase commit.", importance=LOW),
)
# fmt: on

DEFINITIONS: Final = REPLICATION + COORDINATION
