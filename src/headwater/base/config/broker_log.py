"""Broker properties: the log on disk and the defaults of topics.

Where a property is the default of a topic config, topic.py names it as a synonym; the topic's own setting wins.
"""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Importance, Synonym
from headwater.base.config.validators import AtLeast, Between, EachOf, GzipLevel, NotEmpty, NotZero, OneOf

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
CLUSTER, PER_BROKER = DynamicMode.CLUSTER_WIDE, DynamicMode.PER_BROKER
HIGH, LOW = Importance.HIGH, Importance.LOW

LONG_MAX: Final = 2**63 - 1
CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
HOURS_MS: Final = 3600000
MINUTES_MS: Final = 60000

RETENTION: Final = (
    Synonym("log.retention.ms"),
    Synonym("log.retention.minutes", MINUTES_MS),
    Synonym("log.retention.hours", HOURS_MS),
)
ROLL: Final = (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOURS_MS))
ROLL_JITTER: Final = (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOURS_MS))
FLUSH: Final = (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms"))

# fmt: off
# one row, one line
DEFINITIONS: Final = (
    Definition("log.dirs", LIST, None, "The directories that hold the log, with commas between them; log.dir if unset.", NotEmpty(), importance=HIGH),
    Definition("log.dir", LIST, None, "The directory that holds the log. Headwater has no default of its own in /tmp: the command line puts the user's data home here.", NotEmpty(), importance=HIGH),
    Definition("num.partitions", INT, 1, "Partitions of a topic that is created without a number.", AtLeast(1)),
    Definition("default.replication.factor", INT, 1, "Replicas of a topic that is created without a number.", AtLeast(1)),
    Definition("auto.create.topics.enable", BOOLEAN, True, "Whether asking for a topic that is not there creates it.", importance=HIGH),
    Definition("delete.topic.enable", BOOLEAN, True, "Whether topics may be deleted.", importance=HIGH),
    Definition("message.max.bytes", INT, 1048588, "The largest record batch that a topic takes, after compression.", AtLeast(0), CLUSTER, HIGH),
    Definition("min.insync.replicas", INT, 1, "How many replicas must be in sync for a write with acks=all.", AtLeast(1), CLUSTER, HIGH),
    Definition("compression.type", STRING, "producer", "The codec of batches on disk; `producer` keeps what came.", OneOf(*CODECS), CLUSTER, HIGH),
    Definition("compression.gzip.level", INT, -1, "The effort of gzip, where the broker compresses.", GzipLevel(), CLUSTER),
    Definition("compression.lz4.level", INT, 9, "The effort of lz4, where the broker compresses.", Between(1, 17), CLUSTER),
    Definition("compression.zstd.level", INT, 3, "The effort of zstd, where the broker compresses.", Between(-131072, 22), CLUSTER),
    Definition("log.segment.bytes", INT, 1073741824, "The size at which a segment is closed and the next one begun.", AtLeast(1048576), CLUSTER, HIGH),
    Definition("log.segment.delete.delay.ms", LONG, 60000, "How long a deleted segment stays on disk under its new name.", AtLeast(0), CLUSTER, HIGH),
    Definition("log.roll.ms", LONG, None, "The age at which a segment is closed; log.roll.hours if unset.", AtLeast(1), CLUSTER, HIGH, synonyms=ROLL),
    Definition("log.roll.hours", INT, 168, "The age in hours at which a segment is closed.", AtLeast(1), importance=HIGH, synonyms=ROLL),
    Definition("log.roll.jitter.ms", LONG, None, "The most by which a segment is closed earlier, at random; log.roll.jitter.hours if unset.", AtLeast(0), CLUSTER, HIGH, synonyms=ROLL_JITTER),
    Definition("log.roll.jitter.hours", INT, 0, "The most hours by which a segment is closed earlier, at random.", AtLeast(0), importance=HIGH, synonyms=ROLL_JITTER),
    Definition("log.retention.ms", LONG, None, "How long records are kept; -1 for ever; log.retention.minutes if unset.", NotZero(), CLUSTER, HIGH, synonyms=RETENTION),
    Definition("log.retention.minutes", INT, None, "How many minutes records are kept; log.retention.hours if unset.", NotZero(), importance=HIGH, synonyms=RETENTION),
    Definition("log.retention.hours", INT, 168, "How many hours records are kept.", NotZero(), importance=HIGH, synonyms=RETENTION),
    Definition("log.retention.bytes", LONG, -1, "How large a partition may grow before its oldest segments go; -1 for no limit.", None, CLUSTER, HIGH),
    Definition("log.retention.check.interval.ms", LONG, 300000, "How often the broker looks for segments to delete.", AtLeast(1)),
    Definition("log.index.interval.bytes", INT, 4096, "How many bytes of log lie between two index entries.", AtLeast(0), CLUSTER),
    Definition("log.index.size.max.bytes", INT, 10485760, "How large an offset index may grow before its segment is closed.", AtLeast(4), CLUSTER),
    Definition("log.flush.interval.messages", LONG, LONG_MAX, "After how many records a partition is flushed to disk; 1 flushes each write before it is acknowledged.", AtLeast(1), CLUSTER, HIGH),
    Definition("log.flush.interval.ms", LONG, None, "How long a record may stay unflushed; log.flush.scheduler.interval.ms if unset.", AtLeast(0), CLUSTER, HIGH, synonyms=FLUSH),
    Definition("log.flush.scheduler.interval.ms", LONG, LONG_MAX, "How often the broker looks for partitions to flush.", AtLeast(1), importance=HIGH),
    Definition("log.flush.offset.checkpoint.interval.ms", INT, 60000, "How often recovery points are written down.", AtLeast(0), importance=HIGH),
    Definition("log.flush.start.offset.checkpoint.interval.ms", INT, 60000, "How often log start offsets are written down.", AtLeast(0), importance=HIGH, used=False),
    Definition("log.message.timestamp.type", STRING, "CreateTime", "Whether records keep the producer's time or get the broker's.", OneOf("CreateTime", "LogAppendTime"), CLUSTER),
    Definition("log.message.timestamp.before.max.ms", LONG, LONG_MAX, "How far a producer's time may lie in the past.", AtLeast(0), CLUSTER),
    Definition("log.message.timestamp.after.max.ms", LONG, 3600000, "How far a producer's time may lie in the future.", AtLeast(0), CLUSTER),
    Definition("log.preallocate", BOOLEAN, False, "Taken for compatibility: segments grow as they are written.", None, CLUSTER, used=False),
    Definition("log.cleanup.policy", LIST, ["delete"], "What happens to old records: `delete` drops segments, `compact` keeps the last of each key.", EachOf("compact", "delete"), CLUSTER),
    Definition("log.cleaner.enable", BOOLEAN, True, "Whether compacted topics are compacted."),
    Definition("log.cleaner.threads", INT, 1, "How many compactions run at once.", AtLeast(0), CLUSTER),
    Definition("log.cleaner.backoff.ms", LONG, 15000, "How long the cleaner rests when there is nothing to clean.", AtLeast(0), CLUSTER),
    Definition("log.cleaner.dedupe.buffer.size", LONG, 134217728, "Memory for the keys of one round of compaction.", AtLeast(1048576), CLUSTER),
    Definition("log.cleaner.io.buffer.size", INT, 524288, "Memory for reading and writing in compaction.", AtLeast(0), CLUSTER, used=False),
    Definition("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, "How full the key map may get in compaction.", None, CLUSTER, used=False),
    Definition("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, "The most that compaction reads and writes per second.", None, CLUSTER),
    Definition("log.cleaner.delete.retention.ms", LONG, 86400000, "How long compaction keeps delete markers.", AtLeast(0), CLUSTER),
    Definition("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, "How large a share of a log must be uncompacted before it is compacted.", Between(0, 1), CLUSTER),
    Definition("log.cleaner.min.compaction.lag.ms", LONG, 0, "How long a record stays uncompacted at least.", AtLeast(0), CLUSTER),
    Definition("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, "How long a record stays uncompacted at most.", AtLeast(1), CLUSTER),
    Definition("log.dir.failure.timeout.ms", LONG, 30000, "How long a broker may be unable to report a failed log directory before it stops.", AtLeast(1), importance=LOW, used=False),
    Definition("log.initial.task.delay.ms", LONG, 30000, "How long after the start the periodic work on the log begins.", AtLeast(0), importance=LOW, hidden=True, used=False),
    Definition("cordoned.log.dirs", LIST, [], "Log directories that get no new partitions; `*` for all.", None, PER_BROKER, used=False),
    Definition("num.recovery.threads.per.data.dir", INT, 2, "How many worker processes check segments after a crash.", AtLeast(1), CLUSTER, HIGH, used=False),
    Definition("log.local.retention.ms", LONG, -2, "How long records stay on local disk when they are in remote storage too.", AtLeast(-2), CLUSTER, used=False),
    Definition("log.local.retention.bytes", LONG, -2, "How much stays on local disk when it is in remote storage too.", AtLeast(-2), CLUSTER, used=False),
    Definition("producer.id.expiration.ms", INT, 86400000, "How long the state of an idle idempotent producer is kept.", AtLeast(1), CLUSTER, LOW),
    Definition("producer.id.expiration.check.interval.ms", INT, 600000, "How often the state of idle producers is looked over.", AtLeast(1), importance=LOW, hidden=True, used=False),
)
# fmt: on
