"""TopicFiles, the connector: records into files of Parquet, Avro or JSON lines, each exactly once.

The task keeps the records of each partition in a `Cut` until the records themselves say that it ends (`rotation`); then
its files are written as one (`store`). Where files end is where a new task goes on, whatever the group has committed;
the group's offsets follow, so that its lag shows what is not in a file yet.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from headwater.base.config.validators import AtLeast, Between, ConfigValueError, OneOf
from headwater.base.ids import TopicPartition
from headwater.client import ConsumerRecord
from headwater.connect.api import Offsets, SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, TimeZone, listing, long, secret, text, whole
from headwater.connect.connectors.topic_files.formats import AvroContainer, Format, JsonLines, Parquet
from headwater.connect.connectors.topic_files.locations import (
    HdfsLocation,
    S3Location,
    check_path,
    location_of,
    scheme_of,
)
from headwater.connect.connectors.topic_files.object_store import ObjectStore
from headwater.connect.connectors.topic_files.partitioners import Partitioner, by_fields, by_partition, by_time
from headwater.connect.connectors.topic_files.rotation import Cut, Entry, Limits
from headwater.connect.connectors.topic_files.store import FileStore, Store, Written
from headwater.connect.connectors.topic_files.webhdfs import WebHdfs
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.runs import ArrowColumn, SinkRun
from headwater.connect.errors import ConnectError, DataError
from headwater.connect.java_regex import compile_java

# Properties of connectors that do the same under other names: refused, so that nobody thinks they count.
_REFUSED: Final = {
    "format.class": "format",
    "partitioner.class": "partitioner",
    "storage.class": "path",
    "store.url": "s3.endpoint",
    "s3.bucket.name": "path",
    "hdfs.url": "path",
    "topics.dir": "path",
    "path.format": "partitioner",
    "partition.duration.ms": "partitioner",
    "timestamp.extractor": "partitioner",
    "rotate.schedule.interval.ms": "rotate.interval.ms",
    "schema.compatibility": "format",
}


def open_store(config: Mapping[str, Any]) -> Store:
    width = config["filename.offset.zero.pad.width"]
    match location_of(config):
        case S3Location() as location:
            from headwater.connect.connectors.topic_files.s3 import S3Objects

            return ObjectStore(S3Objects(location), config["path"].rstrip("/"), width)
        case HdfsLocation() as location:
            return FileStore(location.directory, width, WebHdfs(location))
        case local:
            return FileStore(local, width)


class _Path:
    def check(self, name: str, value: object) -> None:
        try:
            check_path(str(value or ""))
        except ValueError as error:
            raise ConfigValueError(name, value, str(error)) from None

    def __str__(self) -> str:
        return "a local path, s3://bucket/prefix or webhdfs://host:port/directory"


class TopicFilesTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        config = TopicFilesConnector.config_def.parse(props)
        self._format, self._directory = _format(config), _partitioner(config)
        self._limits = Limits(
            config["flush.size"], config["file.size.max"], config["rotate.interval.ms"], config["open.files.max"]
        )
        self._nulls_fail = config["behavior.on.null.values"] == "fail"
        # directories by a field, and sizes, are of each record
        self.takes_columns = (
            isinstance(self._format, Parquet) and self._directory is by_partition and not config["file.size.max"]
        )
        self._store = open_store(config)
        self._cuts: dict[TopicPartition, Cut] = {}
        self._next: dict[TopicPartition, int] = {}  # behind the last record in a file

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Where the files end is where to go on, whatever the group has committed."""
        self._forget(partitions)
        found = self._store.recover(partitions)
        self._next |= found
        if found:
            self.context.offset(found)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if isinstance(records, SinkRun) and isinstance(records.values, ArrowColumn) and self.takes_columns:
            self._put_columns(records.originals, records.values)
            return
        for record in records:
            place = TopicPartition(record.original_topic, record.original_partition)
            self._check_offset(place, record.offset)
            entry = self._entry(record)
            if entry is not None:
                self._take(place, entry)

    def _check_offset(self, place: TopicPartition, offset: int) -> None:
        if offset < self._next.get(place, 0):
            raise ConnectError(
                f"{place.topic}-{place.partition} gives offset {offset}, but it goes on at {self._next[place]}, where its "
                "files end or its offset was set: was the topic made anew? Delete the connector's offsets, which keeps its "
                "files aside, or choose another path"
            )

    def _put_columns(self, records: Sequence[ConsumerRecord], values: ArrowColumn) -> None:
        """As many at once as belong to one file: as `put` would take them one by one."""
        begin = 0
        for (topic, number), group in groupby(records, key=itemgetter(0, 1)):
            place, end = TopicPartition(topic, number), begin + len(list(group))
            times = [each.timestamp_ms if each.timestamp_ms >= 0 else None for each in records[begin:end]]
            while times:
                self._check_offset(place, records[begin].offset)
                cut = self._cuts.setdefault(place, Cut())
                count = cut.room(f"partition={number}", values.schema, times, self._limits)
                if not count:
                    self._finish(place, cut)
                    continue
                self._take_columns(place, cut, records[begin : begin + count], values, begin, times[:count])
                begin, times = begin + count, times[count:]

    def _take_columns(
        self,
        place: TopicPartition,
        cut: Cut,
        records: Sequence[ConsumerRecord],
        values: ArrowColumn,
        begin: int,
        times: Sequence[int | None],
    ) -> None:
        entry = Entry(
            records[0].offset,
            next((each for each in times if each is not None), None),
            f"partition={place.partition}",
            values.schema,
            values.arrow.slice(begin, len(records)),
            0,
            len(records),
            records[-1].offset,
        )
        if cut.add(entry, self._limits):
            self._finish(place, cut)

    def _entry(self, record: SinkRecord) -> Entry | None:
        if record.value is None and not self._nulls_fail:
            return None
        try:
            if record.value is None:
                raise DataError("The record has no value; behavior.on.null.values=ignore passes over such records")
            encoded, directory = self._format.encode(record), self._directory(record)
        except DataError as error:
            self.context.report(record, error)
            return None
        return Entry(record.offset, record.timestamp_ms, directory, *encoded)

    def _take(self, place: TopicPartition, entry: Entry) -> None:
        cut = self._cuts.setdefault(place, Cut())
        if cut.ends_before(entry, self._limits):
            self._finish(place, cut)
            cut = self._cuts[place] = Cut()
        if cut.add(entry, self._limits):
            self._finish(place, cut)

    def _finish(self, place: TopicPartition, cut: Cut) -> None:
        files = [
            Written(directory, file.first, file.last, self._format.file(file.schema, file.data))
            for directory, file in cut.files.items()
        ]
        self.context.flush_reports()  # the names of files say that these records are done, too
        self._store.write(place, self._format.extension, files)
        self._next[place] = cut.last + 1
        del self._cuts[place]
        self.context.request_commit()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """What is in files, and what leaves no trace in them; never a record that is in memory alone."""
        return {
            place: min(offset, self._cuts[place].first) if place in self._cuts else offset
            for place, offset in offsets.items()
        }

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """What is not in a file yet is read again by the next owner: a file that ended here would end by chance."""
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            self._cuts.pop(place, None)
            self._next.pop(place, None)


def _format(config: Mapping[str, Any]) -> Format:
    match config["format"]:
        case "json":
            return JsonLines()
        case "avro":
            return AvroContainer(config["avro.codec"])
    if find_spec("pyarrow") is None:
        raise ConnectError("format=parquet needs pyarrow: pip install 'headwater[arrow]'")
    return Parquet(config["parquet.codec"])


def _partitioner(config: Mapping[str, Any]) -> Partitioner:
    match config["partitioner"]:
        case "field":
            return by_fields(config["partition.field.name"])
        case "time":
            return by_time(ZoneInfo(config["timezone"]))
    return by_partition


def _reads(props: Mapping[str, str]) -> Callable[[str], bool]:
    regex = props.get("topics.regex", "").strip()
    if regex:
        pattern = compile_java(regex)
        return lambda topic: pattern.fullmatch(topic) is not None
    topics = {each.strip() for each in props.get("topics", "").split(",")}
    return lambda topic: topic in topics


class TopicFilesConnector(SinkConnector):
    doc = (
        "The records of topics as files of Parquet, Avro or JSON lines, each record exactly once; "
        "names are `<topic>+<partition>+<first offset>+<last offset>.<format>`."
    )
    config_def: ClassVar[ConfigDef] = ConfigDef(
        text("path", REQUIRED, HIGH, "The directory under which each topic has its own. Every worker must see the same one; no other connector may write there. `s3://bucket/prefix` is in S3, or what speaks its protocol (needs `pip install 'headwater[arrow]'`), `webhdfs://namenode:9870/directory` in HDFS without Kerberos.", _Path()),
        text("format", "parquet", HIGH, "parquet (values are structs; needs `pip install 'headwater[arrow]'`), avro (values have a schema) or json (a line for each).", OneOf("parquet", "avro", "json")),
        text("partitioner", "default", HIGH, "The directories in that of a topic: default (`partition=N/`), field (`name=value/` for each field of partition.field.name, escaped as Hive does it) or time (`year=/month=/day=/hour=/` of the record's timestamp).", OneOf("default", "field", "time")),
        listing("partition.field.name", [], MEDIUM, "The fields of the value that partitioner=field makes directories of: texts, whole numbers, booleans, decimals, dates. Null is `__HIVE_DEFAULT_PARTITION__`."),
        text("timezone", "UTC", MEDIUM, "The zone in which partitioner=time counts years, months, days and hours.", TimeZone()),
        whole("flush.size", 1000, HIGH, "How many records a file has. When one file of a topic's partition is full, all its open files end: a record that is in no finished file yet is in memory alone.", AtLeast(1)),
        long("file.size.max", 0, MEDIUM, "How large (bytes) a file becomes, before compression and without headers; a record that is larger has a file of its own. 0: no limit.", AtLeast(0)),
        long("rotate.interval.ms", 0, MEDIUM, "A record whose timestamp is so much (ms) behind that of the first one in the open files ends these. Records' timestamps count and no clock: while none come, files stay open. 0: no limit.", AtLeast(0)),
        whole("open.files.max", 100, LOW, "How many files (directories) of one partition are open; a record for one more ends them.", AtLeast(1)),
        text("behavior.on.null.values", "fail", MEDIUM, "What becomes of records without a value (tombstones): fail (an error of that record: errors.tolerance decides) or ignore (they are in no file).", OneOf("fail", "ignore")),
        text("parquet.codec", "snappy", LOW, "How Parquet is compressed.", OneOf("none", "snappy", "gzip", "zstd")),
        text("avro.codec", "null", LOW, "How Avro is compressed.", OneOf("null", "deflate")),
        whole("filename.offset.zero.pad.width", 10, LOW, "The digits that offsets in names have at least.", Between(1, 19)),
        text("s3.region", "us-east-1", MEDIUM, "The region of an `s3://` path."),
        text("s3.endpoint", "", MEDIUM, "The address of a server that is not Amazon's, such as `http://127.0.0.1:9000`."),
        text("aws.access.key.id", "", MEDIUM, "Whose access an `s3://` path is; empty: what AWS's environment variables, profiles or roles say."),
        secret("aws.secret.access.key", None, MEDIUM, "The secret that goes with it."),
        text("webhdfs.user", "", LOW, "As whom a `webhdfs://` path is written; empty: the worker's user."),
    )  # fmt: skip
    task_class = TopicFilesTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The names of files say where to go on: a mark says it from now on, and files behind it are kept aside."""
        store = self._store(props)
        for place, offset in offsets.items():  # all of them or none
            store.check_offset(place, offset)
        for place, offset in offsets.items():
            store.set_offset(place, offset)
        return True

    def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
        """Also where the group never came to commit what files hold. Files of topics that the connector does not read
        are somebody else's.
        """
        store, reads = self._store(props), _reads(props)
        for place in sorted({*known, *(each for each in store.partitions() if reads(each.topic))}):
            store.set_offset(place, None)
        return True

    def _store(self, props: Mapping[str, str]) -> Store:
        return open_store(self.config_def.parse(props))

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        for name, instead in _REFUSED.items():
            if name in props:
                found[instead].errors.append(f"{name} is not supported here; remove it, {instead} is the property")
        if found["partitioner"].value == "field" and not found["partition.field.name"].value:
            found["partition.field.name"].errors.append("partitioner=field needs the names of fields")
        if scheme_of(props.get("path", "")) == "s3" and find_spec("pyarrow") is None:
            found["path"].errors.append("s3:// needs pyarrow: pip install 'headwater[arrow]'")
        if bool(props.get("aws.access.key.id")) != bool(props.get("aws.secret.access.key")):
            found["aws.access.key.id"].errors.append("aws.access.key.id and aws.secret.access.key go together")
        if found["format"].value == "parquet" and find_spec("pyarrow") is None:
            found["format"].errors.append("format=parquet needs pyarrow: pip install 'headwater[arrow]'")
