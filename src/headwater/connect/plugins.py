"""The catalog of plugins: connectors, converters, transforms and predicates, by all the names they have.

A config names a class; only what stands in the catalog can be named, so a config never imports anything. The catalog
has our own plugins, under Java's class names and short ones, and what installed packages register as entry points:

    [project.entry-points."headwater.connect.connectors"]
    Numbers = "my_package.numbers:NumbersConnector"

and likewise `headwater.connect.converters`, `.transforms` (a class, or a function of a record) and `.predicates`.
Classes under `headwater.connect.data_sources` are PySpark's (`DataSource`): formats for SparkSource and SparkSink.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from headwater.connect.api import SinkConnector, SourceConnector
from headwater.connect.config.definition import ConfigDef
from headwater.connect.converters.base import Converter
from headwater.connect.data.record import ConnectRecord
from headwater.connect.errors import ConnectError
from headwater.connect.transforms.base import Part, PartTransformation, Transformation
from headwater.connect.transforms.predicates import Predicate

logger = logging.getLogger("headwater.connect")


class Kind(StrEnum):
    """The values are the `type` of `GET /connector-plugins`."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


class Plugin(NamedTuple):
    kind: Kind
    name: str  # the one that is listed
    cls: Any
    part: Part | None = None  # of a transform that is for the key or for the value

    @property
    def version(self) -> str:
        return str(self.cls.version)

    @property
    def config_def(self) -> ConfigDef:
        found = self.cls.config_def
        assert isinstance(found, ConfigDef)
        return found

    def wrong_version(self, asked: str | None) -> str | None:
        """What is wrong with a version that somebody asks for: there is one only. `latest` and `[0.1.0]` may be it."""
        if asked in (None, "", "latest", self.version, f"[{self.version}]"):
            return None
        return f"{self.name} is here in version {self.version} only, not {asked}"

    def make(self) -> Any:
        made = self.cls()
        if self.part is not None:
            made.part = self.part
        return made


_TRANSFORMS: Final[dict[str, tuple[str, ...]]] = {
    "cast": ("Cast",),
    "fields": ("ExtractField", "HoistField", "ReplaceField", "ValueToKey"),
    "filter": ("Filter",),
    "flatten": ("Flatten",),
    "headers": ("DropHeaders", "HeaderFrom", "InsertHeader"),
    "insert_field": ("InsertField",),
    "mask_field": ("MaskField",),
    "routers": ("RegexRouter", "TimestampRouter"),
    "set_schema_metadata": ("SetSchemaMetadata",),
    "timestamp_converter": ("TimestampConverter",),
}
_DEBEZIUMS: Final = {
    "io.debezium.transforms.ExtractNewRecordState": "new_record_state",
    "io.debezium.transforms.outbox.EventRouter": "event_router",
    "io.debezium.transforms.ToLogicalTopicRouter": "topic_routing",
    "io.debezium.transforms.ByLogicalTableRouter": "topic_routing",
}
_PREDICATES: Final = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
_CONVERTERS: Final[dict[str, tuple[str, str]]] = {
    "io.confluent.connect.avro.AvroConverter": ("avro.converter", "AvroConverter"),
    "io.confluent.connect.json.JsonSchemaConverter": ("jsonschema.converter", "JsonSchemaConverter"),
    "io.confluent.connect.protobuf.ProtobufConverter": ("protobuf.converter", "ProtobufConverter"),
    "org.apache.kafka.connect.json.JsonConverter": ("json_converter", "JsonConverter"),
    "org.apache.kafka.connect.storage.StringConverter": ("basic", "StringConverter"),
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": ("basic", "SimpleHeaderConverter"),
} | {
    f"org.apache.kafka.connect.converters.{name}Converter": ("basic", f"{name}Converter")
    for name in ("ByteArray", "Boolean", "Double", "Float", "Integer", "Long", "Short")
}
_CONNECTORS: Final[dict[str, tuple[str, ...]]] = {
    "file_source": ("FileStreamSource",),
    "file_sink": ("FileStreamSink",),
    "datagen": ("Datagen",),
    "jdbc_source": ("JdbcSource",),
    "jdbc_sink": ("JdbcSink",),
    "cassandra.sink": ("CassandraSink",),
    "elasticsearch.sink": ("ElasticsearchSink",),
    "mongo.sink": ("MongoSink",),
    "mongo.source": ("MongoSource",),
    "postgres_cdc.connector": ("PostgresCdc",),
    "topic_files.connector": ("TopicFiles",),
    "spark.source": ("SparkSource",),
    "spark.sink": ("SparkSink",),
}


class Catalog:
    """Made once per worker. `allowed` are patterns of names; what none of them matches is as if it were not
    installed.
    """

    def __init__(self, allowed: Iterable[str] = ("*",), *, installed: bool = True) -> None:
        self._by_name: dict[tuple[Kind, str], Plugin] = {}
        self._listed: list[Plugin] = []
        self._allowed = tuple(allowed)
        for plugin, names in _built_in():
            self.add(plugin, names)
        if installed:
            for plugin, names in _installed():
                self.add(plugin, names)

    def add(self, plugin: Plugin, names: Iterable[str]) -> None:
        every = {plugin.name, *names}
        connector = plugin.kind in (Kind.SOURCE, Kind.SINK)
        if connector and not any(fnmatchcase(name, pattern) for name in every for pattern in self._allowed):
            return
        self._listed.append(plugin)
        for name in every:
            self._by_name[plugin.kind, name] = plugin

    def plugins(self, *kinds: Kind) -> list[Plugin]:
        return sorted((each for each in self._listed if each.kind in kinds), key=lambda each: (each.name, each.kind))

    def find(self, name: str, *kinds: Kind) -> Plugin:
        for kind in kinds:
            found = self._by_name.get((kind, name))
            if found is not None:
                return found
        there = ", ".join(sorted({each.name for each in self._listed if each.kind in kinds}))
        what = "connector" if Kind.SOURCE in kinds else " or ".join(kinds)
        raise ConnectError(
            f"Failed to find any class that implements {what} and which name matches {name}; available are: {there}"
        )

    def connector(self, name: str) -> Plugin:
        return self.find(name, Kind.SOURCE, Kind.SINK)


Named = tuple[Plugin, tuple[str, ...]]


def _built_in() -> Iterator[Named]:
    for module, names in _CONNECTORS.items():
        for name in names:
            yield connector_plugin(_load(f"connectors.{module}", f"{name}Connector"), name)
    for java_name, (module, name) in _CONVERTERS.items():
        yield from converter_plugins(
            _load(f"converters.{module}", name), java_name, (name, name.removesuffix("Converter"))
        )
    for module, names in _TRANSFORMS.items():
        for name in names:
            yield from transform_plugins(
                _load(f"transforms.{module}", name), f"org.apache.kafka.connect.transforms.{name}"
            )
    for java_name, module in _DEBEZIUMS.items():
        yield from transform_plugins(_load(f"transforms.{module}", java_name.rpartition(".")[2]), java_name)
    for name in _PREDICATES:
        cls = _load("transforms.predicates", name)
        yield Plugin(Kind.PREDICATE, f"org.apache.kafka.connect.transforms.predicates.{name}", cls), (name,)


def _load(module: str, name: str) -> Any:
    return getattr(import_module(f"headwater.connect.{module}"), name)


def connector_plugin(cls: type[SourceConnector] | type[SinkConnector], short: str) -> Named:
    kind = Kind.SOURCE if issubclass(cls, SourceConnector) else Kind.SINK
    own = f"{cls.__module__}.{cls.__qualname__}"
    listed = cls.aliases[0] if cls.aliases else own
    return Plugin(kind, listed, cls), (short, f"{short}Connector", own, *cls.aliases)


def converter_plugins(cls: type[Converter], name: str, names: tuple[str, ...]) -> Iterator[Named]:
    if cls.for_records:
        yield Plugin(Kind.CONVERTER, name, cls), names
    if cls.for_headers:
        yield Plugin(Kind.HEADER_CONVERTER, name, cls), names


def transform_plugins(cls: Any, name: str) -> Iterator[Named]:
    short = name.rpartition(".")[2]
    if isinstance(cls, type) and issubclass(cls, PartTransformation):
        for part, suffix in (("key", "$Key"), ("value", "$Value")):
            yield Plugin(Kind.TRANSFORMATION, name + suffix, cls, part), (short + suffix,)  # type: ignore[arg-type]
    else:
        yield Plugin(Kind.TRANSFORMATION, name, cls), (short,)


def of_function(function: Callable[[ConnectRecord], ConnectRecord | None]) -> type[Transformation]:
    """A transform out of a plain function."""

    class FunctionTransformation(Transformation):
        doc = (function.__doc__ or "").strip()

        def apply(self, record: ConnectRecord) -> ConnectRecord | None:
            return function(record)

    return FunctionTransformation


def _installed() -> Iterator[Named]:
    for group, make in _GROUPS.items():
        for found in _loaded(group, lambda point, make=make: list(make(point))):  # type: ignore[misc]
            yield from found


def data_sources() -> Iterator[Any]:
    """PySpark's, of installed packages."""
    return _loaded("data_sources", EntryPoint.load)


def _loaded(group: str, load: Callable[[EntryPoint], Any]) -> Iterator[Any]:
    for point in entry_points(group=f"headwater.connect.{group}"):
        try:
            found = load(point)
        except Exception as error:  # noqa: BLE001 - somebody else's package: the others are there all the same
            logger.error("event=plugin-left-out name=%r of=%r error=%r", point.name, point.value, str(error)[:500])
        else:
            yield found


def _connector(point: EntryPoint) -> Iterator[Named]:
    yield connector_plugin(point.load(), point.name)


def _converter(point: EntryPoint) -> Iterator[Named]:
    cls = point.load()
    yield from converter_plugins(cls, f"{cls.__module__}.{cls.__qualname__}", (point.name,))


def _transform(point: EntryPoint) -> Iterator[Named]:
    loaded = point.load()
    cls = loaded if isinstance(loaded, type) else of_function(loaded)
    yield from transform_plugins(cls, point.name)


def _predicate(point: EntryPoint) -> Iterator[Named]:
    cls = point.load()
    assert issubclass(cls, Predicate)
    yield Plugin(Kind.PREDICATE, point.name, cls), ()


_GROUPS: Final = {
    "connectors": _connector,
    "converters": _converter,
    "transforms": _transform,
    "predicates": _predicate,
}
