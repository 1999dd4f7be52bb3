"""Topic configs, all of Apache Kafka 4.3's, each with the broker properties that stand in where a topic says
nothing.
"""

from typing import Final

from headwater.base.config.broker_log import CODECS, FLUSH, LONG_MAX, RETENTION, ROLL, ROLL_JITTER
from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Scope, Synonym, Value
from headwater.base.config.validators import (
    AtLeast,
    Between,
    EachOf,
    GzipLevel,
    OneOf,
    SubjectNameStrategy,
    ThrottledReplicas,
    Validator,
)

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)


def _topic(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    validator: Validator | None,
    synonyms: str | tuple[Synonym, ...] = (),
    *,
    used: bool = True,
    hidden: bool = False,
) -> Definition:
    chain = (Synonym(synonyms),) if isinstance(synonyms, str) else synonyms
    return Definition(
        name,
        type_,
        default,
        doc,
        validator,
        DynamicMode.CLUSTER_WIDE,
        scope=Scope.TOPIC,
        synonyms=chain,
        used=used,
        hidden=hidden,
    )


# fmt: off
# one row, one line
DEFINITIONS: Final = (
    _topic("cleanup.policy", LIST, ["delete"], "What happens to old records: `delete` drops segments, `compact` keeps the last of each key, both do both.", EachOf("compact", "delete"), "log.cleanup.policy"),
    _topic("compression.type", STRING, "producer", "The codec of batches on disk; `producer` keeps what came.", OneOf(*CODECS), "compression.type"),
    _topic("compression.gzip.level", INT, -1, "The effort of gzip, where the broker compresses.", GzipLevel(), "compression.gzip.level"),
    _topic("compression.lz4.level", INT, 9, "The effort of lz4, where the broker compresses.", Between(1, 17), "compression.lz4.level"),
    _topic("compression.zstd.level", INT, 3, "The effort of zstd, where the broker compresses.", Between(-131072, 22), "compression.zstd.level"),
    _topic("delete.retention.ms", LONG, 86400000, "How long compaction keeps delete markers.", AtLeast(0), "log.cleaner.delete.retention.ms"),
    _topic("file.delete.delay.ms", LONG, 60000, "How long a deleted segment stays on disk under its new name.", AtLeast(0), "log.segment.delete.delay.ms"),
    _topic("flush.messages", LONG, LONG_MAX, "After how many records the partition is flushed to disk; 1 flushes each write before it is acknowledged.", AtLeast(1), "log.flush.interval.messages"),
    _topic("flush.ms", LONG, LONG_MAX, "How long a record may stay unflushed.", AtLeast(0), FLUSH),
    _topic("follower.replication.throttled.replicas", LIST, [], "Replicas that fetch at a limited rate.", ThrottledReplicas()),
    _topic("index.interval.bytes", INT, 4096, "How many bytes of log lie between two index entries.", AtLeast(0), "log.index.interval.bytes"),
    _topic("internal.segment.bytes", INT, None, "Segment size below the usual minimum, for tests.", AtLeast(1), hidden=True),
    _topic("leader.replication.throttled.replicas", LIST, [], "Replicas that are served at a limited rate.", ThrottledReplicas()),
    _topic("local.retention.bytes", LONG, -2, "How much stays on local disk when it is in remote storage too.", AtLeast(-2), "log.local.retention.bytes", used=False),
    _topic("local.retention.ms", LONG, -2, "How long records stay on local disk when they are in remote storage too.", AtLeast(-2), "log.local.retention.ms", used=False),
    _topic("max.compaction.lag.ms", LONG, LONG_MAX, "How long a record stays uncompacted at most.", AtLeast(1), "log.cleaner.max.compaction.lag.ms"),
    _topic("max.message.bytes", INT, 1048588, "The largest record batch that the topic takes, after compression.", AtLeast(0), "message.max.bytes"),
    _topic("message.timestamp.after.max.ms", LONG, 3600000, "How far a producer's time may lie in the future.", AtLeast(0), "log.message.timestamp.after.max.ms"),
    _topic("message.timestamp.before.max.ms", LONG, LONG_MAX, "How far a producer's time may lie in the past.", AtLeast(0), "log.message.timestamp.before.max.ms"),
    _topic("message.timestamp.type", STRING, "CreateTime", "Whether records keep the producer's time or get the broker's.", OneOf("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    _topic("min.cleanable.dirty.ratio", DOUBLE, 0.5, "How large a share of a log must be uncompacted before it is compacted.", Between(0, 1), "log.cleaner.min.cleanable.ratio"),
    _topic("min.compaction.lag.ms", LONG, 0, "How long a record stays uncompacted at least.", AtLeast(0), "log.cleaner.min.compaction.lag.ms"),
    _topic("min.insync.replicas", INT, 1, "How many replicas must be in sync for a write with acks=all.", AtLeast(1), "min.insync.replicas"),
    _topic("preallocate", BOOLEAN, False, "Taken for compatibility: segments grow as they are written.", None, "log.preallocate", used=False),
    _topic("remote.log.copy.disable", BOOLEAN, False, "Remote storage: whether copying there stops.", None, used=False),
    _topic("remote.log.delete.on.disable", BOOLEAN, False, "Remote storage: whether its data goes when it is switched off.", None, used=False),
    _topic("remote.storage.enable", BOOLEAN, False, "Whether old segments move to remote storage, which Headwater does not have.", None, used=False),
    _topic("retention.bytes", LONG, -1, "How large a partition may grow before its oldest segments go; -1 for no limit.", None, "log.retention.bytes"),
    _topic("retention.ms", LONG, 604800000, "How long records are kept; -1 for ever.", AtLeast(-1), RETENTION),
    _topic("segment.bytes", INT, 1073741824, "The size at which a segment is closed and the next one begun.", AtLeast(1048576), "log.segment.bytes"),
    _topic("segment.index.bytes", INT, 10485760, "How large an offset index may grow before its segment is closed.", AtLeast(4), "log.index.size.max.bytes"),
    _topic("segment.jitter.ms", LONG, 0, "The most by which a segment is closed earlier, at random.", AtLeast(0), ROLL_JITTER),
    _topic("headwater.key.schema.validation", BOOLEAN, False, "Whether a record whose key names no schema of the right subject is refused.", None, hidden=True),
    _topic("headwater.key.subject.name.strategy", STRING, None, "Of which subject the schemas of keys must be.", SubjectNameStrategy(), hidden=True),
    _topic("headwater.value.schema.validation", BOOLEAN, False, "Whether a record whose value names no schema of the right subject is refused.", None, hidden=True),
    _topic("headwater.value.subject.name.strategy", STRING, None, "Of which subject the schemas of values must be.", SubjectNameStrategy(), hidden=True),
    _topic("confluent.key.schema.validation", BOOLEAN, False, "Confluent's name of headwater.key.schema.validation.", None, hidden=True),
    _topic("confluent.key.subject.name.strategy", STRING, None, "Confluent's name of headwater.key.subject.name.strategy.", SubjectNameStrategy(), hidden=True),
    _topic("confluent.value.schema.validation", BOOLEAN, False, "Confluent's name of headwater.value.schema.validation.", None, hidden=True),
    _topic("confluent.value.subject.name.strategy", STRING, None, "Confluent's name of headwater.value.subject.name.strategy.", SubjectNameStrategy(), hidden=True),
    _topic("segment.ms", LONG, 604800000, "The age at which a segment is closed.", AtLeast(1), ROLL),
    _topic("unclean.leader.election.enable", BOOLEAN, False, "Whether a replica that is not in sync may lead, and lose records.", None, "unclean.leader.election.enable"),
)
# fmt: on
