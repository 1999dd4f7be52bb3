"""Java's class names are aliases: each property that the originals define is honoured, or refused by name.

The names are those of the originals' own config definitions: Confluent's JDBC connectors 10.9 and Elasticsearch sink
15.1, MongoDB's 3.0, Aiven's OpenSearch sink 3, Debezium 3.6, DataStax's sink 1.4.
"""

from typing import Final

import pytest

from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.postgres_cdc.connector import _names
from headwater.connect.connectors.postgres_cdc.options import parse
from headwater.connect.data import schema as s
from headwater.connect.plugins import Catalog

ORIGINALS: Final[dict[str, tuple[dict[str, str], str]]] = {
    "io.confluent.connect.jdbc.JdbcSinkConnector": (
        {"connection.url": "jdbc:sqlite:/tmp/x.db", "topics": "t"},
        """
        auto.create auto.evolve batch.size connection.attempts connection.backoff.ms
        connection.oracle.net.wallet_location connection.password connection.url connection.user
        date.calendar.system date.timezone db.timezone delete.enabled dialect.name fields.whitelist insert.mode
        jdbc.credentials.provider.class max.retries mssql.use.merge.holdlock pk.fields pk.mode quote.sql.identifiers
        replace.null.with.default retry.backoff.ms string.output.value.column.name table.name.format table.types
        timestamp.fields.list timestamp.precision.mode trim.sensitive.log
        """,
    ),
    "io.confluent.connect.jdbc.JdbcSourceConnector": (
        {"connection.url": "jdbc:sqlite:/tmp/x.db", "topic.prefix": "t"},
        """
        batch.max.rows catalog.pattern connection.attempts connection.backoff.ms
        connection.oracle.net.wallet_location connection.password connection.url connection.user
        date.calendar.system db.timezone dialect.name incrementing.column.mapping incrementing.column.name
        jdbc.credentials.provider.class jdbc.credentials.provider.region max.buffer.size mode numeric.mapping
        numeric.precision.mapping poll.interval.ms poll.linger.ms query query.masked query.retry.attempts
        query.suffix quote.sql.identifiers schema.pattern table.blacklist table.exclude.list table.include.list
        table.monitoring.startup.polling.limit.ms table.poll.interval.ms table.types table.whitelist
        timestamp.column.name timestamp.columns.mapping timestamp.delay.interval.ms timestamp.granularity
        timestamp.initial topic.prefix transaction.isolation.mode validate.non.null
        """,
    ),
    "com.mongodb.kafka.connect.MongoSinkConnector": (
        {"topics": "t", "database": "d"},
        """
        bulk.write.ordered change.data.capture.handler change.data.capture.handler.remove.null.values collection
        connection.ssl.keystore connection.ssl.truststore connection.uri csfle.bypass.query.analysis csfle.enabled
        csfle.key.vault.namespace csfle.local.master.key csfle.schema.map database delete.on.null.values
        delete.writemodel.strategy document.id.strategy document.id.strategy.overwrite.existing
        document.id.strategy.partial.key.projection.list document.id.strategy.partial.key.projection.type
        document.id.strategy.partial.value.projection.list document.id.strategy.partial.value.projection.type
        document.id.strategy.uuid.format errors.log.enable errors.tolerance field.renamer.mapping
        field.renamer.regexp field.value.transformer field.value.transformer.fields key.projection.list
        key.projection.type max.batch.size mongo.custom.auth.mechanism.enable
        mongo.custom.auth.mechanism.providerClass mongo.errors.log.enable mongo.errors.tolerance namespace.mapper
        namespace.mapper.error.if.invalid namespace.mapper.key.collection.field namespace.mapper.key.database.field
        namespace.mapper.value.collection.field namespace.mapper.value.database.field post.processor.chain provider
        rate.limiting.every.n rate.limiting.timeout server.api.deprecation.errors server.api.strict
        server.api.version timeseries.expire.after.seconds timeseries.granularity timeseries.metafield
        timeseries.timefield timeseries.timefield.auto.convert timeseries.timefield.auto.convert.date.format
        timeseries.timefield.auto.convert.locale.language.tag topic.override.t.field.value.transformer topics.regex
        value.projection.list value.projection.type writemodel.strategy
        """,
    ),
    "com.mongodb.kafka.connect.MongoSourceConnector": (
        {"database": "d"},
        """
        batch.size change.stream.document.key.as.key change.stream.full.document
        change.stream.full.document.before.change change.stream.show.expanded.events collation collection
        connection.ssl.keystore connection.ssl.truststore connection.uri copy.existing copy.existing.allow.disk.use
        copy.existing.max.threads copy.existing.namespace.regex copy.existing.pipeline copy.existing.queue.size
        database errors.deadletterqueue.topic.name errors.log.enable errors.tolerance heartbeat.interval.ms
        heartbeat.topic.name mongo.custom.auth.mechanism.enable mongo.errors.deadletterqueue.topic.name
        mongo.errors.log.enable mongo.errors.tolerance offset.partition.name output.format.key output.format.value
        output.json.formatter output.schema.infer.value output.schema.key output.schema.value pipeline
        poll.await.time.ms poll.max.batch.size provider publish.full.document.only
        publish.full.document.only.tombstone.on.delete server.api.deprecation.errors server.api.strict
        server.api.version startup.mode startup.mode.copy.existing.allow.disk.use
        startup.mode.copy.existing.max.threads startup.mode.copy.existing.namespace.regex
        startup.mode.copy.existing.pipeline startup.mode.copy.existing.queue.size
        startup.mode.timestamp.start.at.operation.time topic.mapper topic.namespace.map topic.prefix topic.separator
        topic.suffix
        """,
    ),
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": (
        {"topics": "t", "connection.url": "http://h:1"},
        """
        auto.create.indices.at.start batch.size behavior.on.malformed.documents behavior.on.null.values
        bulk.size.bytes compact.map.entries connection.compression connection.password connection.timeout.ms
        connection.url connection.username data.stream.dataset data.stream.namespace data.stream.timestamp.field
        data.stream.type drop.invalid.message elastic.https.ssl.cipher.suites elastic.https.ssl.key.password
        elastic.https.ssl.keystore.location elastic.https.ssl.protocol elastic.security.protocol
        external.resource.usage external.version.header flush.synchronously flush.timeout.ms kerberos.keytab.path
        kerberos.user.principal key.ignore linger.ms log.sensitive.data max.buffered.records
        max.connection.idle.time.ms max.external.resource.mappings max.in.flight.requests max.retries proxy.host
        proxy.password proxy.port proxy.username read.timeout.ms retry.backoff.ms schema.ignore topic.index.map
        topic.key.ignore topic.schema.ignore topic.to.external.resource.mapping type.name use.autogenerated.ids
        write.method
        """,
    ),
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": (
        {"topics": "t", "connection.url": "http://h:1"},
        """
        aws.access_key_id aws.region aws.secret_access_key aws.service.signing.name aws.sts.role.arn
        aws.sts.role.external.id aws.sts.role.session.duration aws.sts.role.session.name batch.size
        behavior.on.malformed.documents behavior.on.null.values behavior.on.version.conflict compact.map.entries
        connection.password connection.timeout.ms connection.url connection.username data.stream.enabled
        data.stream.prefix data.stream.timestamp.field data.streams.existing.index.template.name
        drop.invalid.message existing.resource.type flush.timeout.ms index.write.method key.ignore
        key.ignore.id.strategy linger.ms max.buffered.records max.in.flight.requests max.retries read.timeout.ms
        retry.backoff.ms routing.type routing.type.record.value.path schema.ignore topic.key.ignore
        topic.schema.ignore topic.to.existing.resource.mapping trust.all.certificates
        """,
    ),
    "io.debezium.connector.postgresql.PostgresConnector": (
        {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"},
        """
        binary.handling.mode column.exclude.list column.include.list column.propagate.source.type
        connection.validation.timeout.ms converters custom.metric.tags custom.sanitize.pattern database.dbname
        database.hostname database.initial.statements database.password database.port database.query.timeout.ms
        database.sslcert database.sslfactory database.sslkey database.sslmode database.sslpassword
        database.sslrootcert database.tcpKeepAlive database.user datatype.propagate.source.type
        decimal.handling.mode errors.max.retries event.processing.failure.handling.mode executor.shutdown.timeout.ms
        extended.headers.enabled flush.lsn.source guardrail.collections.limit.action guardrail.collections.max
        heartbeat.action.query heartbeat.interval.ms heartbeat.topics.prefix hstore.handling.mode
        include.schema.comments include.unknown.datatypes incremental.snapshot.chunk.size
        incremental.snapshot.watermarking.strategy internal.advanced.metrics.enable
        internal.legacy.snapshot.max.threads internal.log.position.check.enable
        internal.snapshot.scan.all.columns.force interval.handling.mode legacy.snapshot.max.threads lsn.flush.mode
        lsn.flush.timeout.action lsn.flush.timeout.ms max.batch.size max.queue.size max.queue.size.in.bytes
        memory.management.schemas.class memory.management.tables.class message.key.columns
        message.prefix.exclude.list message.prefix.include.list notification.enabled.channels
        notification.sink.topic.name openlineage.integration.config.file.path
        openlineage.integration.dataset.kafka.bootstrap.servers openlineage.integration.enabled
        openlineage.integration.job.description openlineage.integration.job.namespace
        openlineage.integration.job.owners openlineage.integration.job.tags plugin.name poll.interval.ms
        post.processors provide.transaction.metadata publication.autocreate.mode publication.name
        publish.via.partition.root query.fetch.size replica.identity.autoset.values
        retriable.restart.connector.wait.ms schema.exclude.list schema.include.list schema.name.adjustment.mode
        schema.refresh.mode signal.data.collection signal.enabled.channels signal.poll.interval.ms
        skipped.operations slot.drop.on.stop slot.failover slot.max.retries slot.name slot.retry.delay.ms
        slot.stream.params snapshot.delay.ms snapshot.fetch.size snapshot.include.collection.list
        snapshot.isolation.mode snapshot.lock.timeout.ms snapshot.locking.mode snapshot.locking.mode.custom.name
        snapshot.max.threads snapshot.max.threads.multiplier snapshot.mode
        snapshot.mode.configuration.based.snapshot.data snapshot.mode.configuration.based.snapshot.on.data.error
        snapshot.mode.configuration.based.snapshot.on.schema.error snapshot.mode.configuration.based.snapshot.schema
        snapshot.mode.configuration.based.start.stream snapshot.mode.custom.name snapshot.query.mode
        snapshot.query.mode.custom.name snapshot.select.statement.overrides snapshot.tables.order.by.row.count
        sourceinfo.struct.maker statistics.metrics.enabled status.update.interval.ms streaming.delay.ms
        table.exclude.list table.ignore.builtin table.include.list time.precision.mode tombstones.on.delete
        topic.naming.strategy topic.prefix transaction.metadata.factory unavailable.value.placeholder
        xmin.fetch.interval.ms
        """,
    ),
    "com.datastax.oss.kafka.sink.CassandraSinkConnector": (
        {"topics": "t", "loadBalancing.localDc": "d", "topic.t.k.t.mapping": "a=value.a"},
        """
        auth.gssapi.keyTab auth.gssapi.principal auth.gssapi.service auth.password auth.provider auth.username
        cloud.secureConnectBundle compression connectionPoolLocalSize contactPoints
        datastax-java-driver.basic.request.timeout ignoreErrors jmx jmxConnectorDomain loadBalancing.localDc
        maxConcurrentRequests maxNumberOfRecordsInBatch metricsHighestLatency port queryExecutionTimeout
        ssl.cipherSuites ssl.hostnameValidation ssl.keystore.password ssl.keystore.path ssl.openssl.keyCertChain
        ssl.openssl.privateKey ssl.provider ssl.truststore.password ssl.truststore.path topic.t.codec.date
        topic.t.codec.locale topic.t.codec.time topic.t.codec.timeZone topic.t.codec.timestamp topic.t.codec.unit
        topic.t.k.t.consistencyLevel topic.t.k.t.deletesEnabled topic.t.k.t.mapping topic.t.k.t.nullToUnset
        topic.t.k.t.query topic.t.k.t.timestampTimeUnit topic.t.k.t.ttl topic.t.k.t.ttlTimeUnit
        """,
    ),
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (
        {"topic": "t"},
        """
        batch.size file topic
        """,
    ),
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (
        {"topics": "t"},
        """
        file
        """,
    ),
}


def test_what_debezium_does_unasked_may_be_asked_for() -> None:
    """It stopped configs that say it."""
    needed = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
    given = {"name": "c", "connector.class": "PostgresCdc", **needed}
    said = {"snapshot.locking.mode": "none", "snapshot.isolation.mode": "SERIALIZABLE", "errors.max.retries": "-1", "snapshot.mode": "Initial"}  # fmt: skip
    assert validate(Catalog(), {**given, **said}).errors == []
    told = validate(Catalog(), {**given, "snapshot.locking.mode": "shared", "snapshot.mode": "never"}).errors
    assert len(told) == 2
    assert "snapshot.locking.mode is not supported here" in told[0] + told[1]


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({}, "__debezium-heartbeat.p"),
        ({"heartbeat.topics.prefix": "old"}, "old.p"),
        ({"topic.heartbeat.prefix": "beats", "heartbeat.topics.prefix": "old", "topic.delimiter": "_"}, "beats_p"),
        ({"topic.heartbeat.name": "beats"}, "beats"),
    ],
)
def test_the_topic_of_heartbeats_is_named_by_debeziums_properties(properties: dict[str, str], topic: str) -> None:
    """topic.heartbeat.prefix was refused, and topic.heartbeat.name had no effect."""
    needed = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
    assert _names(parse({**needed, **properties}), s.BYTES).heartbeat_topic == topic


@pytest.mark.parametrize("original", ORIGINALS)
def test_each_property_of_an_original_is_known_or_refused_by_name(original: str) -> None:
    """Newer ones were taken, and had no effect: a connector that was to log in by a provider of its own did not."""
    needed, names = ORIGINALS[original]
    catalog, given = Catalog(), {"name": "c", "connector.class": original, **needed}
    known = validate(catalog, given)
    assert known.errors == []
    ignored = []
    for name in names.split():
        if name in known.values or name in given:
            continue
        found = validate(catalog, {**given, name: "x"})
        if not any(name in sentence for sentence in found.errors):
            ignored.append(name)
    assert ignored == []
