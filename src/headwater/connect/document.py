"""docs/CONNECT.md, made from the config definitions: `python -m headwater.connect.document > docs/CONNECT.md`.

A test holds the file against what this prints, so the two cannot drift apart.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from headwater.base.config.definition import format_value
from headwater.base.markdown import wrapped
from headwater.connect.config.definition import ConfigKey
from headwater.connect.config.distributed import DISTRIBUTED_DEF
from headwater.connect.config.worker import WORKER_DEF
from headwater.connect.connector_config.common import SINK_KEYS, SOURCE_KEYS, common_def
from headwater.connect.metrics.names import GROUPS, LEFT_OUT
from headwater.connect.plugins import Catalog, Kind, Plugin

_INTRODUCTION: Final = """\
# Connect

Made from the config definitions in `src/headwater/connect/` by `python -m headwater.connect.document`; change those,
not this file.

Data in and out of topics by configuration: Kafka Connect's files, REST calls and plugins, in Python. A worker runs
alone, or in a group with others. Tasks are threads of the worker, or share slots that Spark supplies; those of
SparkSource and SparkSink are queries of Spark. The status says where a task runs, if not in the worker itself
(`runs_on`).

```
headwater up -d
printf 'foo\\nbar\\n' > test.txt
headwater connect run config/connect-standalone.properties config/connect-file-source.properties config/connect-file-sink.properties
```

prints `ready connect listeners=http://127.0.0.1:8083 connectors=...` and copies test.txt to the topic `connect-test`,
and from there to test.sink.txt. `bin/connect-standalone.sh` takes the same files. A connector's file is a properties
file, a JSON object of properties, or what `POST /connectors` takes.

## Workers of a group

```
headwater connect worker --set bootstrap.servers=localhost:9092 --set group.id=etl --set listeners=http://127.0.0.1:8083
headwater connect worker --set bootstrap.servers=localhost:9092 --set group.id=etl --set listeners=http://127.0.0.1:8084
headwater connect create config/connect-file-source.properties --url http://127.0.0.1:8084
```

Each prints a line that begins with `ready` when its REST door serves; `bin/connect-distributed.sh
config/connect-distributed.properties` starts one from a file, `headwater up --connect` one beside the brokers. Workers
with the same `group.id` share connectors and tasks evenly. Every call works on every worker: what only the leader can
do is handed on to it, what only the owner of a task can do to that one.

- **What the group knows** is in three compacted topics, in Kafka Connect's own formats: configs, offsets and statuses.
  They are named after the group unless the properties name them, and made where they are missing; a worker that may not
  make topics uses those that are there. The topics of a stopped Apache Connect are taken over, and given back. Workers
  of both kinds cannot be in one group at the same time: whoever comes second is refused, and says so.
- **Balance** is incremental: a worker keeps what it has; what has to move is stopped on one worker before it starts on
  another. A worker that stops says so, one that dies is missed after `session.timeout.ms`. Its tasks wait
  `scheduled.rebalance.max.delay.ms` for it to come back (10 seconds; Kafka Connect has five minutes), unless a new
  worker comes or the leader itself was lost.
- **A worker that was asleep** (a suspended machine, a long pause), or that a network has cut off, stops everything when
  it finds that its group has forgotten it, and then joins again. Its sources and its leadership are fenced by
  transactional ids before that: it writes nothing. A sink may hand over the records that it has in its hands once more,
  as with any other failure.
- **Slots.** With `spark.master` in its properties, a worker runs tasks in slots: long-lived tasks of one Spark query,
  each a Python process that keeps a core. There are `task.slots` of them, unless it is said one for each core but one;
  one core always stays free for queries. Many tasks share a slot, each with a thread and clients of its own;
  `task.isolation=slot` in a connector's config gives each of its tasks a slot alone, and tasks that were there move.
  The REST door does not wait for Spark: the session begins with the first task. A slot that is killed is replaced, and
  its tasks go on in others at once, exactly once as ever; when the worker dies its slots end. `"runs_on": "spark
  local[3,4] local-1700000000000 slot 1 host:4711"` in a status is the master, the application, the slot and its
  process. `task.slots=0` keeps tasks in the worker. A worker alone has slots only if `task.slots` says so. References
  to config providers are resolved in the slot, so what they refer to must be on every machine with executors; nothing
  of a config is in Spark's plans, pages or event log. Plugins are those that are installed there.
- **Calls between workers** (`POST /connectors/{name}/tasks`, `PUT /connectors/{name}/fence`) are signed with a key that
  is in the config topic, as Kafka Connect signs them. Whoever may read that topic can sign.

## Looking after connectors

| command | REST |
|---|---|
| `headwater connect list` | `GET /connectors?expand=status` |
| `headwater connect create FILE`, with `--update` | `POST /connectors`, `PUT /connectors/{name}/config` |
| `headwater connect validate FILE` | `PUT /connector-plugins/{class}/config/validate` |
| `headwater connect status NAME` | `GET /connectors/{name}/status` |
| `headwater connect pause`, `stop`, `resume NAME` | `PUT /connectors/{name}/pause`, `/stop`, `/resume` |
| `headwater connect restart NAME --include-tasks --only-failed` | `POST /connectors/{name}/restart?includeTasks=true&onlyFailed=true` |
| `headwater connect offsets NAME`, with `--set orders:0=42` (or JSON) or `--reset` | `GET`, `PATCH`, `DELETE /connectors/{name}/offsets`, the last two when it is stopped |
| `headwater connect plugins [CLASS] --all` | `GET /connector-plugins`, `/connector-plugins/{class}/config` |
| `headwater connect delete NAME` | `DELETE /connectors/{name}` |
| (Prometheus) | `GET /metrics`, see [Metrics](#metrics) |

The other calls are there too: `GET /`, `/health`, `PATCH /connectors/{name}/config`, `/connectors/{name}/tasks`,
`/tasks/{i}/status`, `/tasks/{i}/restart`, `/topics`, `/topics/reset`, `/admin/loggers`. Answers and error bodies are
Kafka Connect's; where Apache's standalone worker answers 500 for a connector that does not exist, ours answers 404, and
400 where a body cannot be read or has a field too many. What a connector says to offsets that it refuses is a 500 with
its sentence, as there. Otherwise than there, a transform's predicate that is not defined is refused, a source cannot
become a sink by another config, and a connector that is made or set PAUSED has its tasks, paused. Connectors made over
REST live as long as a standalone worker, as they do there. The door speaks plain HTTP on 127.0.0.1 unless `listeners`
says otherwise, wants `Content-Type: application/json` with every body, and refuses what a web page of another origin
sends, unless `access.control.allow.origin` names that origin.

## What is delivered

- **Sources of a group: exactly once.** Records and their offsets are one transaction (KIP-618) with the transactional
  id `<group.id>-<connector>-<task>`; the leader fences the tasks before, and notes their number, before new ones begin.
  Readers must have `isolation.level=read_committed`. What a source did not show, nobody delivers: the `mode` of
  JdbcSource says what it can miss. `transaction.boundary` says where transactions end: `poll` (after each poll),
  `interval`, or `connector` for connectors that say so themselves (`context.transaction_context`; records of a
  transaction that the connector aborts are passed over, they do not come again). `exactly.once.support=required`
  refuses a connector that cannot; `exactly.once.source.support=disabled` on the workers makes it at least once. A group
  that was at least once and holds no task counts is fenced from its second configuration on. With
  `offsets.storage.topic` a connector has its offsets in a topic of its own, in the transaction of its records; the
  worker's topic gets a copy afterwards, and is read where the own one has nothing.
- **Sources of a standalone worker: at least once.** Offsets are written to `offset.storage.file.filename` after their
  records have arrived; a worker that dies in between reads those lines again, as with Kafka Connect's: a file cannot be
  part of a transaction. The file is Apache Kafka's own (a Java-serialized map), so the offsets of a stopped Apache
  worker are taken over, and given back.
- **Sinks: at least once**, where nothing else is said. A sink's tasks are members of the group `connect-<name>`, so
  `headwater group describe connect-<name>` shows their lag; offsets are committed after the task has said that its
  records are safe.
- **Databases.** JdbcSource says with its `mode` what it can miss. JdbcSink makes one transaction of what a poll gave;
  with `progress.table` offsets are part of it, and each record is written exactly once; `insert.mode=upsert` with keys
  makes repetitions harmless. SQLite is in Python, PostgreSQL needs `pip install 'headwater[postgres]'`, MariaDB and
  MySQL `pip install 'headwater[mariadb]'` (tested with MariaDB 10.11; MySQL is not). A record that cannot be a row, or
  whose value the database refuses, goes to the dead letter topic or ends the task (`errors.tolerance`), and the others
  are written; one that conflicts with other rows is tried `max.retries` times before. On MariaDB, sessions are in UTC
  and strict, whatever the server's: nothing is cut to fit. `jdbc:mariadb://` and `jdbc:mysql://` take `user`,
  `password`, `localSocket`, `sslMode`, `serverSslCert`, `connectTimeout`, `socketTimeout` and `zeroDateTimeBehavior`
  (`exception`, `convertToNull`); any other parameter is refused. Tables that are made there have LONGTEXT and LONGBLOB,
  and keys of text are VARCHAR(255) that tells apart case and trailing blanks. TINYINT is int8 (BOOLEAN is a TINYINT
  there), unsigned types the next wider one, BIGINT UNSIGNED int64 all the same, BIT(1) boolean, DATETIME and TIMESTAMP
  timestamps in UTC; FLOAT has the six digits that the server sends. An upsert there goes by any unique index, as ON
  DUPLICATE KEY does. `progress.table` needs tables whose engine has transactions, and says so otherwise; its column
  `generation` counts how often somebody has set an offset, so that a task that slept meanwhile writes nothing (a table
  of an earlier version gets it, for which the user has to own the table). NUMERIC with a
  scale is a Decimal, without one text; arrays, JSON and other types of PostgreSQL are text, as it writes them. Offsets
  of a stopped source of Confluent's are taken over. SQLite's timestamps are
  compared to the microsecond, those that are numbers count milliseconds. Timestamps without a zone are UTC. A property
  of the connectors that these follow which has no effect here is refused.
- **Cassandra.** CassandraSink (`com.datastax.oss.kafka.sink.CassandraSinkConnector`; `pip install
  'headwater[cassandra]'`) writes the rows of its mappings: at least once, and a row that is written again changes
  nothing, for its write time is its record's timestamp, with the last three digits of the offset as microseconds; so
  the last record of a key counts, whoever writes when, as long as timestamps of a key do not go back. `query` has no
  such times: its rows are written one after the other. A record without a value deletes its row (`deletesEnabled`), and
  so does one whose fields are all null if every column is mapped. A cluster that does not answer is asked again until
  it does; rows that it refuses, and values that no column can have, are reported as errors of their record. Refused are
  counters, tuples, durations, vectors and types of one's own, `codec.*`, secure connect bundles, Kerberos and the
  settings of Java's driver.
- **Elasticsearch and OpenSearch.** ElasticsearchSink (`io.confluent.connect.elasticsearch.ElasticsearchSinkConnector`,
  and Aiven's classes for both; no package is needed) writes documents by `_bulk`: at least once, and a record that
  comes again changes nothing. With `key.ignore=false` the record's key is the id and its offset the version, so the
  last record of a key counts whatever is written twice or late; a topic that was made anew, or a second one into the
  same index, begins with lower versions, which are passed over: the index has to be made anew, too, or
  `external.version.header` gives the versions. With `key.ignore=true` the id is topic, partition and offset, of the
  topic as it is in Kafka, whatever transforms call it. With `write.method=upsert` there are no versions: one request
  goes after the other, and again from the first record that was not taken. Only `use.autogenerated.ids` makes two
  documents of a record that comes twice. A server that is away, too busy (429), or has an index blocked is asked again,
  `max.retries` times in a row; then the task fails, and is started again (`errors.restart`). A document that is
  refused for what is in it goes to the dead letter topic or ends the task, and the others are written; a missing
  right, or an alias without an index to write to, is no fault of a record and always ends the task. Requests that are
  too large (413) are divided. Values are structs or maps; decimals are written as numbers, times as milliseconds,
  bytes as base64. Errors do not show values of documents unless `log.sensitive.data` says so. Tested with OpenSearch
  2.19; Elasticsearch itself is not. Data streams, proxies and Kerberos are refused by name.
- **MongoDB.** MongoSink (`com.mongodb.kafka.connect.MongoSinkConnector`; `pip install 'headwater[mongodb]'`) writes
  documents: at least once, and with a `document.id.strategy` by which the record decides its id, a document that is
  written again changes nothing; the default gives each a new one. Values are structs, maps, JSON objects (MongoDB's
  extended JSON) or BSON. Tombstones delete with `delete.on.null.values=true`, and are passed over without. Documents
  that the server refuses are reported as errors of their record, and the others are written; a server that does not
  answer is asked again until it does. MongoSource (`com.mongodb.kafka.connect.MongoSourceConnector`) reads a collection
  by a field that grows (`poll.field`, which the original does not have), or change streams. The change streams are not
  tested: there is no MongoDB where the tests run. What is tested is against FerretDB, which speaks MongoDB's protocol.
  A property of the originals that has no effect here is refused.
- **Files.** TopicFiles writes each record to exactly one file, on local paths (`file:///` too), in S3 or what speaks
  its protocol (`s3://bucket/prefix`; Arrow's client), and in HDFS (`webhdfs://namenode:9870/directory`; WebHDFS without
  Kerberos). A file is `<path>/<topic>/<directories>/<topic>+<partition>+<first offset>+<last offset>.<format>`; topic
  and partition are Kafka's, whatever transforms made of them. It has a hidden name until it is whole and synced. A task
  that starts ends what a crash left half done, and goes on behind the highest offset that names have; the group's
  offsets follow. So files, at least the last ones of each partition, stay where they are. Setting the connector's
  offsets puts a mark into `<topic>/_offsets/` that says so from then on, and moves the files with later records to
  `<topic>/_replaced/` (in S3 by a copy), which readers such as Spark pass over: each record is in one file again. An
  offset within a file is refused, and the answer names those around it. Deleting moves all of them, of the topics that
  the connector reads, and the group says where to begin. A task that slept meanwhile writes nothing more, in S3 unless
  it slept between its last look and its write. Where files end (`flush.size`, `file.size.max`, `rotate.interval.ms` in
  the records' own time, another schema with Parquet and Avro, `open.files.max`) depends on the records alone: whoever
  writes them makes the same files, and what stops in the middle leaves no short ones. All open files of a partition end
  together. Records that are in no file yet are read again after a restart: on a quiet topic, they wait for the next
  ones. Records without a value are errors, or passed over (`behavior.on.null.values`). Objects in S3 cannot be renamed:
  one is there whole or not at all, and while a task writes several files that belong together (`partitioner=field` and
  `time`), an object in `<topic>/_cuts/` names them. Whoever finds it, and not all of them, puts an object of its own
  there and writes them all again; so readers may see some of these files before the others. An offset behind the
  beginning of such files is not set before they are ended; a reset takes them along. A task that has lost its partition
  without knowing writes the same files again; one with an older configuration, which ends them elsewhere, is not kept
  out of S3. An upload that fails, or whose worker is killed, makes no object, but its parts stay in the bucket until a
  lifecycle rule (`AbortIncompleteMultipartUpload`) removes them: give the bucket one. Keys, headers and timestamps are
  not written; InsertField puts what it can into the value.
- **Spark.** SparkSource and SparkSink read and write whatever Spark can (`format`, `options.*`), with the same
  converters and transforms. A worker has one Spark session, begun by the first connector that needs it, made of the
  worker's `spark.*` properties: `spark.master`, `spark.jars`, `spark.jars.packages`. A connector cannot set any of
  them. SparkSink is a streaming query that calls converters and transforms in Spark's tasks: files (parquet, orc, json,
  csv, text, xml, avro), `headwater-postgres` and `headwater-sqlite` leave a mark with each batch, and a batch that is
  marked is not written again: with local files and HDFS each record is there once, though the worker is killed. A
  worker that sleeps while another has taken over finds, there, that the batch has its name, and takes its own files
  away; object stores have no rename that refuses a name, and do not keep such a worker out. Every other format (jdbc
  among them) is at least once. A batch of files is a directory that gets its name when it is whole, and counts when
  `_manifests` names it; a batch that was not through is written again. On object stores, where a rename is a copy,
  plain readers may see a directory grow: read only what the manifests name (`read_committed_files` does, for Parquet
  alone). `checkpoint.location` says where a sink goes on; the group `connect-<name>` follows. Setting its offsets adds
  a batch that is done to the checkpoint, and what comes next has a number of its own in the target: records from there
  on are written, again if they were before (of a file or a table, remove those first). Partitions that the call does
  not name go on where they were: behind a batch that was begun when its worker died if its mark is in the target, else
  where that batch began. A partition whose offset is deleted is read from its earliest record; deleting all removes the
  checkpoint. SparkSource gives a batch of a stream, or a whole read (`read.mode=batch`), as records of one transaction
  on workers of a group with `exactly.once.source.support=enabled`; elsewhere at least once: the offset of a batch is
  written when all its rows have arrived. Its rows pass through the worker, one partition of the read at a time (Spark's
  `toLocalIterator`): the largest one must fit into the driver's memory, `repartition` or the format's own options make
  them smaller. `producer.override.transaction.timeout.ms` must be longer than a batch takes. A pause stops a sink's
  query and a resume starts it again.
- **Change data capture.** PostgresCdc (`io.debezium.connector.postgresql.PostgresConnector`) reads the log of
  PostgreSQL 10 and newer by the plugin `pgoutput` (`wal_level=logical`; `pip install 'headwater[postgres]'`), and
  writes what Debezium 3.6 writes: topics, keys, envelopes, schemas and headers are compared with its records field by
  field. First come all rows, as the slot saw them when it was made; then every change, in the order of commits. The
  server may forget a change only after its offset is committed, so a worker alone that dies repeats some and loses
  none; workers of a group commit offsets with the records where they run with `exactly.once.source.support=enabled`, so
  that each change is there once (not the rows of a snapshot that did not end). A snapshot that does not end goes on
  with the table that it was at, whose rows come again from the first, as reads (`"op": "r"`) with the same keys
  (Debezium's begins anew with all tables); if the slot has moved or is gone, all come again. With
  `snapshot.mode=no_data` a slot that is gone fails the task, and the status says what to do, unless `slot.drop.on.stop`
  drops it by design. With `snapshot.mode=when_needed`, a slot that is gone is made anew after the old offset is
  forgotten: a heartbeat record carries that, and `offset.flush.interval.ms` may pass before the rows come. Offsets of a
  stopped Debezium connector are taken over. `before` is whole only with `REPLICA IDENTITY FULL`, otherwise it has the
  key and zeros; pgoutput tells no DDL, a changed table is known by its next row. Other than Debezium: `infinity` and
  years before Christ are right in DATE columns too, scales below zero are kept, a partitioned table's rows come once.
  Missing: signals, incremental snapshots, notifications, custom converters, PostGIS and pgvector types. A server
  that is away, or refuses the login, when the task begins fails it; one that goes away later is asked until it is back.
  A slot keeps the server's log until its connector comes back: drop the slot of one that will not (`SELECT
  pg_drop_replication_slot('...')`).
- **Errors.** `errors.tolerance=all` skips records that cannot be converted or transformed; `errors.log.enable` tells
  them, `errors.deadletterqueue.topic.name` keeps them, with `__connect.errors.*` headers if `...context.headers.enable`
  is set, and with their time. A record that cannot be written there fails its task, and comes again. A sink cannot
  read its own dead letters.
- **Failed connectors and tasks are started again** by themselves, after 1, 2, 4 ... up to 300 seconds, and their status
  says so, and why they failed (`errors.restart=false` turns that off). Kafka Connect leaves them failed.
- **Plugins that hang.** A connector's method has 60 seconds, its `stop` `task.shutdown.graceful.timeout.ms`; then it is
  left to itself and the connector has failed. A task that does not end within that time is given up: it sends and
  commits nothing any more. While it is in its sink's group, the sink's offsets are not set or deleted: the call is
  refused, and the target stays as it is.

## Secrets

Config providers are set up in the worker's properties, each with what it may reach; a config refers to them by
`${file:/path:key}`, `${dir:/path:name}`, `${env:NAME}`. Configs are kept and shown with the references. Values of
properties that are passwords by their type, or secret by their name, and addresses with a password in them, are shown
as `[hidden]`; a config that is given back with `[hidden]` in it keeps what was there. What a provider gave, and what is
secret, is taken out of traces, logs, dead letters and answers of validations. A reference cannot stand in
`connector.class`, `transforms`, `predicates` or the `type` of one of them: their values are names that answers show.

## Schemas in a registry

`value.converter=io.confluent.connect.avro.AvroConverter` (or `AvroConverter`) with
`value.converter.schema.registry.url=http://localhost:8081` writes Avro with the id of its schema before it, and reads
what Avro serializers of Confluent's or ours wrote; `headwater registry start` is a registry ([SCHEMAS.md](SCHEMAS.md)).
Schemas become Avro's by the rules of Confluent's converter: optional is a union with null, the four logical types are
Avro's, maps whose keys are not strings are arrays of `MapEntry`, names, versions, docs, parameters and defaults stand
in `connect.*` properties. Enums are read as strings, unions as structs with a field for each branch; records that
contain themselves are refused. `io.confluent.connect.json.JsonSchemaConverter` (`JsonSchemaConverter`) does the same
with JSON and JSON Schema: what JSON cannot tell apart stands in `connect.type`; values without a schema are refused,
and so is `allOf` of several schemas. Its schemas mean what those of Confluent's converter mean, but their properties
may stand in another order. `io.confluent.connect.protobuf.ProtobufConverter` (`ProtobufConverter`) writes structs as
messages: int8 and int16 are noted in `confluent.field_meta`, the logical types are `google.type.Date`, `TimeOfDay`,
`google.protobuf.Timestamp` and `confluent.type.Decimal`, unions are oneofs, enums strings. Nulls of scalars are lost
unless `optional.for.nullables` or `wrapper.for.nullables` is set, as there; maps whose keys Protobuf allows are written
as `map<>`, which is the same on the wire. Other values than structs, arrays in arrays, and messages that contain
themselves are refused. A registry that does not answer is tried again for `errors.retry.timeout`. A property that such
a converter does not know is refused.

## Transforms

`transforms=a,b` names them, `transforms.a.type` and the other properties under `transforms.a.` set them up;
`transforms.a.predicate` names a predicate that says which records they are for, `transforms.a.negate=true` that it is
the others. Regular expressions are Java's as far as RE2 reads them: no look-around, no back references. Dates reach
from the year 1 to 9999, times are UTC. `io.debezium.transforms.ExtractNewRecordState` (`ExtractNewRecordState`) makes a
row of a change of PostgresCdc, or of Debezium itself, so that other sinks can write it;
`io.debezium.transforms.outbox.EventRouter` (`EventRouter`) makes events of the rows of an outbox table;
`ToLogicalTopicRouter` and `ByLogicalTableRouter` send changes of several tables into one topic. No other transform of
Debezium's is here.

## A connector of one's own

A connector and its task are two small classes (`headwater.connect.api`), methods may be coroutines;
`examples/connect_numbers.py` is one. A package registers it as an entry point,
`[project.entry-points."headwater.connect.connectors"]`; converters, transforms (a class, or a function of a record) and
predicates likewise. A `DataSource` of PySpark's under `headwater.connect.data_sources` is a `format` for SparkSource
and SparkSink; its package must be on every machine with executors. A config can only name what is registered so;
`plugin.allowlist` narrows that down. `headwater.testing.connect` runs a source or a sink alone (`SourceKit`, `SinkKit`)
or in a worker against an embedded broker (`ConnectWorker`); `crash()` loses a task in the middle.

Many records at a time are cheaper than one by one: a source whose `poll` gives a list of records with the same schema
objects, topic and source partition, or at once a `SourceRun` of columns (`headwater.connect.data.runs`), has them
converted and sent together, and a sink's `put` may get a `SinkRun`, a sequence of records that has their values as
columns too. One by one go records with headers, those of a source with `errors.tolerance=all`, that is told of each
(`commit_record`) or says itself where transactions end, and those under a transform of one's own, unless its class says
`is_pure = True`: what becomes of a record follows from the record alone, so that it may be asked again.

Avro, Protobuf and JSON with a schema registry go at once into Arrow's columns where the sink takes them: TopicFiles
with `format=parquet`, `partitioner=default` and no `file.size.max`, and SparkSink; a task of one's own says so with
`takes_columns`, and then finds `ArrowColumn`s in its runs. What comes out is the same to the byte. InsertField,
ReplaceField, MaskField, Cast, TimestampConverter, ExtractField, Flatten, HoistField and SetSchemaMetadata of values,
ValueToKey, RegexRouter, TimestampRouter, Filter, DropHeaders and the predicates go over columns too; records with their
keys and topics are made when a sink looks at them. Of Cast and TimestampConverter, texts and times as texts are
converted value by value, the other columns are left alone. ExtractField of what is no struct keeps columns as the last
transform into SparkSink. Under InsertHeader, HeaderFrom, ExtractNewRecordState and EventRouter, transforms of keys, and
those of one's own, records are made of them; so they are where a null has a default to become, or a value cannot be
converted. Record by record go those with headers, a batch with several schemas, without a value or with one that cannot
be read, and what the two ways would differ in. Of Avro: maps, unions of several types, UUIDs, decimals within arrays
and structs, structs that are null. Of Protobuf: `google.protobuf.Duration`, maps that are written as messages, a key
that a map has twice. Of JSON: maps, decimals, several types in one place, and batches with a value of another type than
the schema's, a property that it does not name, or a document of several lines.
"""

_METRICS: Final = """\
## Metrics

`GET /metrics` of a worker is Prometheus text: what Kafka Connect gives by JMX, under the names that the example rules
of the JMX exporter make of it. Each worker tells of what it runs itself, so Prometheus asks each; tasks in Spark's
slots tell their worker every few seconds. Where callers log in, they need DESCRIBE on the cluster. Rates, averages and
extremes are of the last 30 to 60 seconds (`metrics.num.samples`, `metrics.sample.window.ms`) and worked out as Kafka
does; a `..._percentage` is a share of 1, as it is there. What has no value yet is left out. A status, a class or a
version is a label of a metric that is 1: `kafka_connect_connector_task_status{connector="a",task="0",status="running"}
1`, `kafka_connect_connector_task_info{...}`.

Some differ from Kafka Connect: polls and puts without records are not counted, so averages are those of real batches; a
task that fails and is started again by its worker goes on counting, and `headwater_connect_task_restarts_total` says
how often that was. SparkSink counts by micro-batches: its commits are those of the query's checkpoint, and what Spark's
executors read and convert, errors too, counts once their batch is converted, and again when a batch whose target failed
is tried again. A batch that cannot be converted is told in the status, and its errors are not counted.
"""


def document() -> str:
    return wrapped("\n".join(_lines()) + "\n")


def _lines() -> Iterator[str]:
    catalog = Catalog(installed=False)
    yield _INTRODUCTION
    yield from _section("The standalone worker", "", WORKER_DEF)
    yield from _section("The worker of a group", "", DISTRIBUTED_DEF)
    yield "Besides: `producer.*`, `consumer.*`, `admin.*` set the worker's clients ([CLIENT.md](CLIENT.md)), `security.*`,"
    yield "`sasl.*`, `ssl.*` all of them; a connector's `producer.override.*`, `consumer.override.*`, `admin.override.*` count before them.\n"
    yield from _section("Every connector", "", common_def(catalog))
    yield from _section("Every source", "", SOURCE_KEYS)
    yield "`topic.creation.default.partitions`, `.replication.factor` and any topic config make the topics that a source writes to first;"
    yield "`topic.creation.<group>.include` and `.exclude` choose topics for a group of their own, which has the default's partitions and "
    yield "replicas where it says nothing.\n"
    yield from _section("Every sink", "", SINK_KEYS)
    yield from _metrics()
    yield "## Connectors\n"
    for plugin in catalog.plugins(Kind.SOURCE, Kind.SINK):
        yield from _plugin(plugin, 3, [plugin.cls.__name__.removesuffix("Connector")])
    yield "## Converters\n"
    for plugin in catalog.plugins(Kind.CONVERTER):
        yield from _plugin(plugin, 3, [plugin.name.rpartition(".")[2]])
    header = catalog.find("SimpleHeaderConverter", Kind.HEADER_CONVERTER)
    yield from _plugin(header, 3, ["SimpleHeaderConverter"])
    yield "## The transforms, one by one\n"
    for plugin in catalog.plugins(Kind.TRANSFORMATION):
        if plugin.part != "key":
            short = plugin.name.rpartition(".")[2]
            yield from _plugin(plugin, 3, [short.replace("$Value", "$Key"), short] if plugin.part else [short])
    yield "## Predicates\n"
    for plugin in catalog.plugins(Kind.PREDICATE):
        yield from _plugin(plugin, 3, [plugin.name.rpartition(".")[2]])


def _metrics() -> Iterator[str]:
    yield _METRICS
    yield "| Kafka Connect's group | here | labels | |"
    yield "|---|---|---|---|"
    for name, group in GROUPS.items():
        numbers = ", ".join(f"`{each.replace('-', '_')}`" for each in (*group.gauges, *group.counters))
        texts = ", ".join(f"`{each.replace('-', '_')}`" for each in group.texts)
        told = "; ".join(each for each in (numbers, texts and f"as labels: {texts}") if each)
        labels = ", ".join(f"`{each}`" for each in group.labels)
        yield f"| {name.partition('/')[0]} | `{group.prefix}_*` | {labels} | {told} |"
    yield "\nNot there: " + "; ".join(f"`{name}` ({why})" for (_, name), why in LEFT_OUT.items()) + ".\n"


def _plugin(plugin: Plugin, level: int, names: list[str]) -> Iterator[str]:
    title = names[0].partition("$")[0]
    shown = ", ".join(f"`{each}`" for each in names)
    alias = f"; Java's name `{plugin.name}`" if plugin.name.startswith(("org.", "io.", "com.")) else ""
    yield from _section(title, f"{plugin.cls.doc} ({shown}{alias})", plugin.config_def, level)


def _section(title: str, text: str, keys: Iterable[ConfigKey], level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {title}\n"
    if text:
        yield f"{text}\n"
    rows = [key for key in keys if key.name != "converter.type"]
    if not rows:
        return
    yield "| name | type | default | meaning |"
    yield "|---|---|---|---|"
    for key in rows:
        default = (
            "(required)"
            if key.required
            else f"`{format_value(key.default)}`"
            if key.default not in (None, "", [])
            else ""
        )
        allowed = f" ({key.validator})" if key.validator is not None else ""
        yield f"| `{key.name}` | {key.type.name.lower()} | {default} | {key.doc.replace('|', chr(92) + '|')}{allowed} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(document())
