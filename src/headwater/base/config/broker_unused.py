"""Names of Apache Kafka's that Headwater knows and does not use, so that a server.properties from elsewhere loads.

Setting one is no error: the broker says once, at the start, which of its settings have no effect and why.
DescribeConfigs lists them (but for the older ones, which Apache Kafka 4 has dropped), because clients look for them.

One line each: name, type, dynamic mode, importance, default; `-` is no default, `""` is empty.
"""

from collections.abc import Iterator
from typing import Final

from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Importance

_OTHER: Final = """
add.partitions.to.txn.retry.backoff.max.ms int read-only high 100
add.partitions.to.txn.retry.backoff.ms int read-only high 20
alter.config.policy.class.name class read-only low -
alter.log.dirs.replication.quota.window.num int read-only low 11
alter.log.dirs.replication.quota.window.size.seconds int read-only low 1
background.threads int cluster-wide high 10
client.quota.callback.class class read-only low -
config.providers list cluster-wide low ""
create.topic.policy.class.name class read-only low -
delete.records.purgatory.purge.interval.requests int read-only medium 1
fetch.purgatory.purge.interval.requests int read-only medium 1000
kafka.metrics.polling.interval.secs int read-only low 10
kafka.metrics.reporters list read-only low ""
metric.reporters list cluster-wide low org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int read-only low 2
metrics.recording.level string read-only low INFO
metrics.sample.window.ms long read-only low 30000
num.replica.alter.log.dirs.threads int read-only high -
producer.purgatory.purge.interval.requests int read-only medium 1000
replication.quota.window.num int read-only low 11
replication.quota.window.size.seconds int read-only low 1
socket.connection.setup.timeout.max.ms long read-only medium 30000
socket.connection.setup.timeout.ms long read-only medium 10000
telemetry.max.bytes int read-only low 1048576
"""

_SECURITY: Final = """
delegation.token.expiry.check.interval.ms long read-only low 3600000
delegation.token.expiry.time.ms long read-only medium 86400000
delegation.token.max.lifetime.ms long read-only medium 604800000
delegation.token.secret.key password read-only medium -
principal.builder.class class per-broker medium org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
sasl.client.callback.handler.class class read-only medium -
sasl.kerberos.kinit.cmd string per-broker medium /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long per-broker medium 60000
sasl.kerberos.principal.to.local.rules list per-broker medium DEFAULT
sasl.kerberos.service.name string per-broker medium -
sasl.kerberos.ticket.renew.jitter double per-broker medium 0.05
sasl.kerberos.ticket.renew.window.factor double per-broker medium 0.8
sasl.login.callback.handler.class class read-only medium -
sasl.login.class class read-only medium -
sasl.login.connect.timeout.ms int read-only low -
sasl.login.read.timeout.ms int read-only low -
sasl.login.refresh.buffer.seconds short per-broker medium 300
sasl.login.refresh.min.period.seconds short per-broker medium 60
sasl.login.refresh.window.factor double per-broker medium 0.8
sasl.login.refresh.window.jitter double per-broker medium 0.05
sasl.login.retry.backoff.max.ms long read-only low 10000
sasl.login.retry.backoff.ms long read-only low 100
sasl.mechanism.controller.protocol string read-only high GSSAPI
sasl.oauthbearer.assertion.algorithm string read-only medium RS256
sasl.oauthbearer.assertion.claim.aud string read-only medium -
sasl.oauthbearer.assertion.claim.exp.seconds int read-only low 300
sasl.oauthbearer.assertion.claim.iss string read-only medium -
sasl.oauthbearer.assertion.claim.jti.include boolean read-only medium false
sasl.oauthbearer.assertion.claim.nbf.seconds int read-only low 60
sasl.oauthbearer.assertion.claim.sub string read-only medium -
sasl.oauthbearer.assertion.file string read-only medium -
sasl.oauthbearer.assertion.private.key.file string read-only medium -
sasl.oauthbearer.assertion.private.key.passphrase password read-only medium -
sasl.oauthbearer.assertion.template.file string read-only medium -
sasl.oauthbearer.client.credentials.client.id string read-only medium -
sasl.oauthbearer.client.credentials.client.secret password read-only medium -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long read-only low 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long read-only low 100
sasl.oauthbearer.jwt.retriever.class class read-only medium org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class read-only medium org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string read-only medium -
sasl.oauthbearer.scope.claim.name string read-only low scope
sasl.server.callback.handler.class class read-only medium -
"""

_KRAFT: Final = """
broker.heartbeat.interval.ms int read-only medium 2000
broker.session.timeout.ms int read-only medium 9000
controller.listener.names list read-only high -
controller.quorum.append.linger.ms int read-only medium 25
controller.quorum.auto.join.enable boolean read-only low false
controller.quorum.bootstrap.servers list read-only high ""
controller.quorum.election.backoff.max.ms int read-only high 1000
controller.quorum.election.timeout.ms int read-only high 1000
controller.quorum.fetch.max.bytes int read-only low 1048576
controller.quorum.fetch.snapshot.max.bytes int read-only low 1048576
controller.quorum.fetch.timeout.ms int read-only high 2000
controller.quorum.request.timeout.ms int read-only medium 2000
controller.quorum.retry.backoff.ms int read-only low 20
controller.quorum.voters list read-only high ""
controller.socket.timeout.ms int read-only medium 30000
early.start.listeners list read-only high -
initial.broker.registration.timeout.ms int read-only medium 60000
metadata.log.dir string read-only high -
metadata.log.max.record.bytes.between.snapshots long read-only high 20971520
metadata.log.max.snapshot.interval.ms long read-only high 3600000
metadata.log.segment.bytes int read-only high 1073741824
metadata.log.segment.ms long read-only high 604800000
metadata.max.idle.interval.ms int read-only low 500
metadata.max.retention.bytes long read-only high 104857600
metadata.max.retention.ms long read-only high 604800000
process.roles list read-only high -
"""

_REMOTE: Final = """
follower.fetch.last.tiered.offset.enable boolean cluster-wide medium false
remote.fetch.max.wait.ms int cluster-wide medium 500
remote.list.offsets.request.timeout.ms long cluster-wide medium 30000
remote.log.index.file.cache.total.size.bytes long cluster-wide low 1073741824
remote.log.manager.copier.thread.pool.size int cluster-wide medium 10
remote.log.manager.copy.max.bytes.per.second long cluster-wide medium 9223372036854775807
remote.log.manager.copy.quota.window.num int read-only medium 11
remote.log.manager.copy.quota.window.size.seconds int read-only medium 1
remote.log.manager.expiration.thread.pool.size int cluster-wide medium 10
remote.log.manager.fetch.max.bytes.per.second long cluster-wide medium 9223372036854775807
remote.log.manager.fetch.quota.window.num int read-only medium 11
remote.log.manager.fetch.quota.window.size.seconds int read-only medium 1
remote.log.manager.follower.thread.pool.size int cluster-wide medium 2
remote.log.manager.task.interval.ms long read-only low 30000
remote.log.manager.thread.pool.size int read-only medium 2
remote.log.metadata.custom.metadata.max.bytes int read-only low 128
remote.log.metadata.manager.class.name string read-only medium org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string read-only medium -
remote.log.metadata.manager.impl.prefix string read-only medium rlmm.config.
remote.log.metadata.manager.listener.name string read-only medium -
remote.log.reader.max.pending.tasks int read-only medium 100
remote.log.reader.threads int cluster-wide medium 10
remote.log.storage.manager.class.name string read-only medium -
remote.log.storage.manager.class.path string read-only medium -
remote.log.storage.manager.impl.prefix string read-only medium rsm.config.
remote.log.storage.system.enable boolean read-only medium false
"""

_GROUPS: Final = """
group.consumer.max.assignment.interval.ms int read-only medium 15000
group.consumer.min.assignment.interval.ms int read-only medium 0
group.coordinator.background.threads int read-only high 2
group.coordinator.cached.buffer.max.bytes int cluster-wide medium 1048588
group.share.assignment.interval.ms int cluster-wide medium 1000
group.share.assignors list read-only medium simple
group.share.delivery.count.limit int read-only medium 5
group.share.heartbeat.interval.ms int read-only medium 5000
group.share.max.assignment.interval.ms int read-only medium 15000
group.share.max.delivery.count.limit int read-only medium 10
group.share.max.heartbeat.interval.ms int read-only medium 15000
group.share.max.partition.max.record.locks int read-only medium 4000
group.share.max.record.lock.duration.ms int read-only medium 60000
group.share.max.session.timeout.ms int read-only medium 60000
group.share.max.share.sessions int read-only medium 2000
group.share.max.size int read-only medium 200
group.share.min.assignment.interval.ms int read-only medium 0
group.share.min.delivery.count.limit int read-only medium 2
group.share.min.heartbeat.interval.ms int read-only medium 5000
group.share.min.partition.max.record.locks int read-only medium 100
group.share.min.record.lock.duration.ms int read-only medium 15000
group.share.min.session.timeout.ms int read-only medium 45000
group.share.partition.max.record.locks int read-only medium 2000
group.share.record.lock.duration.ms int read-only medium 30000
group.share.session.timeout.ms int read-only medium 45000
group.streams.assignment.interval.ms int cluster-wide medium 1000
group.streams.heartbeat.interval.ms int read-only medium 5000
group.streams.initial.rebalance.delay.ms int read-only medium 3000
group.streams.max.assignment.interval.ms int read-only medium 15000
group.streams.max.heartbeat.interval.ms int read-only medium 15000
group.streams.max.session.timeout.ms int read-only medium 60000
group.streams.max.size int read-only medium 2147483647
group.streams.max.standby.replicas int read-only medium 2
group.streams.min.assignment.interval.ms int read-only medium 0
group.streams.min.heartbeat.interval.ms int read-only medium 5000
group.streams.min.session.timeout.ms int read-only medium 45000
group.streams.num.standby.replicas int read-only medium 0
group.streams.session.timeout.ms int read-only medium 45000
share.coordinator.append.linger.ms int read-only medium -1
share.coordinator.cached.buffer.max.bytes int cluster-wide medium 1048588
share.coordinator.load.buffer.size int read-only high 5242880
share.coordinator.snapshot.update.records.per.snapshot int read-only medium 500
share.coordinator.state.topic.compression.codec int read-only high 0
share.coordinator.state.topic.min.isr short read-only high 2
share.coordinator.state.topic.num.partitions int read-only high 50
share.coordinator.state.topic.replication.factor short read-only high 3
share.coordinator.state.topic.segment.bytes int read-only high 104857600
share.coordinator.threads int read-only medium 1
share.coordinator.write.timeout.ms int read-only high 5000
share.fetch.purgatory.purge.interval.requests int read-only medium 1000
"""

_TLS: Final = """
security.providers string read-only low -
ssl.allow.dn.changes boolean read-only low false
ssl.allow.san.changes boolean read-only low false
ssl.engine.factory.class class per-broker low -
ssl.keymanager.algorithm string per-broker medium SunX509
ssl.protocol string per-broker medium TLSv1.3
ssl.provider string per-broker medium -
ssl.secure.random.implementation string per-broker low -
ssl.trustmanager.algorithm string per-broker medium PKIX
"""

_OLDER: Final = """
broker.id.generation.enable boolean read-only medium true
reserved.broker.max.id int read-only medium 1000
control.plane.listener.name string read-only high -
controlled.shutdown.max.retries int read-only medium 3
controlled.shutdown.retry.backoff.ms long read-only medium 5000
inter.broker.protocol.version string read-only medium -
log.message.downconversion.enable boolean read-only low true
log.message.format.version string read-only medium -
log.message.timestamp.difference.max.ms long read-only medium 9223372036854775807
offsets.commit.required.acks short read-only high -1
group.coordinator.new.enable boolean read-only medium true
quota.producer.default long read-only high -
quota.consumer.default long read-only high -
zookeeper.sync.time.ms int read-only low 2000
zookeeper.max.in.flight.requests int read-only high 10
zookeeper.metadata.migration.enable boolean read-only high false
zookeeper.ssl.crl.enable boolean read-only low false
zookeeper.ssl.ocsp.enable boolean read-only low false
"""

GROUPS_AND_NOTES: Final = (
    (_OTHER, "Headwater works differently here."),
    (_KRAFT, "KRaft is Apache Kafka's own metadata quorum; Headwater keeps its metadata elsewhere."),
    (_SECURITY, "Kerberos, delegation tokens, classes of one's own and tokens over HTTP are not there."),
    (_TLS, "Java has this; OpenSSL, which is used here, has not."),
    (_REMOTE, "There is no remote storage."),
    (_GROUPS, "Not served yet."),
    (_OLDER, "Older versions of Apache Kafka knew it."),
)


def _definitions() -> Iterator[Definition]:
    for table, note in GROUPS_AND_NOTES:
        for line in table.split("\n"):
            if line:
                yield _definition(line, note, hidden=table is _OLDER)


def _definition(line: str, note: str, *, hidden: bool) -> Definition:
    name, type_name, mode, importance, default = line.split(" ", 4)
    type_ = ConfigType[type_name.upper()]
    bare = Definition(
        name, type_, None, note, None, DynamicMode(mode), Importance(importance), used=False, hidden=hidden
    )
    if default == "-":
        return bare
    return bare._replace(default=bare.parse("" if default == '""' else default))


DEFINITIONS: Final = tuple(_definitions())
