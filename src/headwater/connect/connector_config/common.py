"""The properties that every connector has: Kafka Connect's, and `errors.restart`, which says whether failed
connectors and tasks are started again.
"""

from typing import Any, Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf
from headwater.connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Recommender
from headwater.connect.config.keys import (
    HIGH,
    LOW,
    MEDIUM,
    NonEmptyText,
    Pattern,
    a_class,
    flag,
    listing,
    long,
    text,
    whole,
)
from headwater.connect.plugins import Catalog, Kind

COMMON, TRANSFORMS, PREDICATES, ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
_RELOAD: Final = OneOf("none", "restart", ignore_case=True)


class _Name:
    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            return
        if not value.strip():
            raise ConfigValueError(name, value, "String may not be empty")
        found = [str(ord(each)) for each in value if ord(each) < 32 or 127 <= ord(each) < 160]
        if found:
            raise ConfigValueError(
                name,
                value,
                f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}",
            )

    def __str__(self) -> str:
        return "not empty, without control characters"


class _Classes:
    """The name of a plugin that is in the catalog."""

    def __init__(self, catalog: Catalog, *kinds: Kind) -> None:
        self._catalog, self._kinds = catalog, kinds

    def check(self, name: str, value: object) -> None:
        from headwater.connect.errors import ConnectError

        if isinstance(value, str):
            try:
                self._catalog.find(value, *self._kinds)
            except ConnectError:
                what = " or ".join(self._kinds)
                raise ConfigValueError(name, value, f"Class {value} could not be found as a {what}") from None

    def __str__(self) -> str:
        return "the name of a plugin"


def _names(catalog: Catalog, *kinds: Kind) -> Recommender:
    found = [each.name for each in catalog.plugins(*kinds)]
    return Recommender(values=lambda _name, _values: found)


def common_def(catalog: Catalog) -> ConfigDef:
    converters, headers = (_Classes(catalog, kind) for kind in (Kind.CONVERTER, Kind.HEADER_CONVERTER))
    its: dict[str, Any] = {"group": COMMON, "width": "SHORT"}
    failing: dict[str, Any] = {"group": ERRORS}
    return ConfigDef(
        text("name", REQUIRED, HIGH, "The connector's name, by which all calls know it.", _Name(), group=COMMON, order=1, width="MEDIUM", display_name="Connector name"),
        text("connector.class", REQUIRED, HIGH, "The connector's class: a short name (FileStreamSource) or Java's.", group=COMMON, order=2, width="LONG", display_name="Connector class", recommender=_names(catalog, Kind.SOURCE, Kind.SINK)),
        text("connector.plugin.version", None, MEDIUM, "The version of the class; each is here in one version only.", group=COMMON, order=3, width="MEDIUM", display_name="Connector version"),
        whole("tasks.max", 1, HIGH, "How many tasks the connector may have at most.", AtLeast(1), order=4, display_name="Tasks max", **its),
        flag("tasks.max.enforce", True, LOW, "Whether a connector that makes more tasks than that fails.", order=5, display_name="Enforce tasks max", **its),
        a_class("key.converter", None, LOW, "The converter of keys; the worker's if none is given.", converters, order=6, display_name="Key converter class", recommender=_names(catalog, Kind.CONVERTER), **its),
        text("key.converter.plugin.version", None, LOW, "Its version.", order=7, display_name="Key converter version", **its),
        a_class("value.converter", None, LOW, "The converter of values; the worker's if none is given.", converters, order=8, display_name="Value converter class", recommender=_names(catalog, Kind.CONVERTER), **its),
        text("value.converter.plugin.version", None, LOW, "Its version.", order=9, display_name="Value converter version", **its),
        a_class("header.converter", None, LOW, "The converter of headers; the worker's if none is given.", headers, order=10, display_name="Header converter class", recommender=_names(catalog, Kind.HEADER_CONVERTER), **its),
        text("header.converter.plugin.version", None, LOW, "Its version.", order=11, display_name="Header converter version", **its),
        listing("transforms", [], LOW, "Aliases of the transforms, in the order in which records go through them.", group=TRANSFORMS, order=12, width="LONG", display_name="Transforms"),
        listing("predicates", [], LOW, "Aliases of the predicates that transforms refer to.", group=PREDICATES, order=13, width="LONG", display_name="Predicates"),
        text("config.action.reload", "restart", LOW, "What happens when a config provider says that a value is over: a restart, or nothing. The providers here say no such thing.", _RELOAD, group=COMMON, order=14, width="MEDIUM", display_name="Reload Action"),
        text("task.isolation", "shared", LOW, "On a worker with slots (task.slots). shared: tasks of many connectors run in one slot. slot: each task has a slot of its own.", OneOf("shared", "slot"), group=COMMON, order=15, width="SHORT", display_name="Task Isolation"),
        long("errors.retry.timeout", 0, MEDIUM, "For how long (ms) an operation that failed is tried again; -1: for ever, 0: not at all.", order=1, width="MEDIUM", display_name="Retry Timeout for Errors", **failing),
        long("errors.retry.delay.max.ms", 60_000, MEDIUM, "How long (ms) the pauses between such tries can get.", order=2, width="MEDIUM", display_name="Maximum Delay Between Retries for Errors", **failing),
        text("errors.tolerance", "none", MEDIUM, "none: a record that cannot be converted or transformed fails its task. all: it is skipped.", OneOf("none", "all", ignore_case=True), order=3, width="SHORT", display_name="Error Tolerance", **failing),
        flag("errors.log.enable", False, MEDIUM, "Whether each such error is logged.", order=4, width="SHORT", display_name="Log Errors", **failing),
        flag("errors.log.include.messages", False, MEDIUM, "Whether the log says topic, partition, offset and timestamp of the record.", order=5, width="SHORT", display_name="Log Error Details", **failing),
        flag("errors.restart", True, MEDIUM, "Whether a connector or task that has failed is started again, after a pause that doubles up to five minutes. Kafka Connect never does.", order=9, width="SHORT", display_name="Restart Failed Connectors and Tasks", **failing),
    )  # fmt: skip


SOURCE_KEYS: Final = (
    listing("topic.creation.groups", [], LOW, "Groups of topics that are made with settings of their own, by topic.creation.<group>.*", group="Topic Creation", order=1, width="LONG", display_name="Topic Creation Groups"),
    text("exactly.once.support", "requested", MEDIUM, "required: the connector starts only where its records are written exactly once: on workers of a group.", OneOf("required", "requested", ignore_case=True), group="Exactly Once Support", order=2, width="SHORT", display_name="Exactly once support"),
    text("transaction.boundary", "poll", MEDIUM, "Where transactions end, on workers of a group: after each poll, after some time, or where the connector says so.", OneOf("poll", "interval", "connector", ignore_case=True), group="Exactly Once Support", order=3, width="SHORT", display_name="Transaction Boundary"),
    long("transaction.boundary.interval.ms", None, LOW, "How long transactions last (ms) with transaction.boundary=interval; offset.flush.interval.ms if not given.", AtLeast(0), group="Exactly Once Support", order=4, width="SHORT", display_name="Transaction boundary interval"),
    text("offsets.storage.topic", None, LOW, "A topic for this connector's offsets, on workers of a group; made, compacted, where it is missing. What it has counts before what the worker's topic has; both are written.", NonEmptyText(), group="offsets.topic", order=1, width="LONG", display_name="Offsets topic"),
)  # fmt: skip
SINK_KEYS: Final = (
    listing("topics", [], HIGH, "The topics to read.", group=COMMON, order=4, width="LONG", display_name="Topics"),
    text("topics.regex", "", HIGH, "A pattern of the names of topics to read, instead of `topics`.", Pattern(), group=COMMON, order=4, width="LONG", display_name="Topics regex"),
    text("errors.deadletterqueue.topic.name", "", MEDIUM, "The dead letter topic, for records that could not be taken. Empty: none.", group=ERRORS, order=6, width="MEDIUM", display_name="Dead Letter Queue Topic Name"),
    ConfigKey("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3, MEDIUM, "Replicas of that topic where it has to be made.", None, ERRORS, "MEDIUM", "Dead Letter Queue Topic Replication Factor", order=7),
    flag("errors.deadletterqueue.context.headers.enable", False, MEDIUM, "Whether headers (`__connect.errors.*`) tell what went wrong.", group=ERRORS, order=8, width="MEDIUM", display_name="Enable Error Context Headers"),
)  # fmt: skip


def connector_def(catalog: Catalog, kind: Kind) -> ConfigDef:
    return common_def(catalog) + (SOURCE_KEYS if kind is Kind.SOURCE else SINK_KEYS)


def step_keys(catalog: Catalog, prefix: str, group: str, kind: Kind) -> list[ConfigKey]:
    """The rows of one transform or predicate, besides those of its class."""
    keys = [
        a_class(f"{prefix}type", REQUIRED, HIGH, "The class.", _Classes(catalog, kind), group=group, width="LONG", order=0, display_name="Type", recommender=_names(catalog, kind)),
        text(f"{prefix}plugin.version", None, LOW, "Its version.", group=group, order=1),
    ]  # fmt: skip
    if kind is Kind.TRANSFORMATION:
        keys += [
            text(f"{prefix}predicate", None, MEDIUM, "The alias of a predicate: only records that it is true for are changed.", group=group, order=2),
            flag(f"{prefix}negate", False, MEDIUM, "Whether it is those that the predicate is false for.", group=group, order=3),
        ]  # fmt: skip
    return keys
