"""The way of one record through converters and transforms, made from a connector's config: the same for both kinds of
task.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from headwater.client import ConsumerRecord
from headwater.connect.config.definition import ConfigDef, converter_config, own_config
from headwater.connect.connector_config.common import step_keys
from headwater.connect.converters.base import Converter
from headwater.connect.data.record import ConnectRecord, SinkRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Type
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.tolerance import Stage, Tolerance
from headwater.connect.transforms.base import Transformation, is_pure
from headwater.connect.transforms.predicates import Predicate

R = TypeVar("R", bound=ConnectRecord)


class Step(NamedTuple):
    name: str  # of the class
    transform: Transformation
    predicate: Predicate | None
    negate: bool

    def applies(self, record: ConnectRecord) -> bool:
        return self.predicate is None or self.predicate.test(record) != self.negate


class Pipeline:
    """Owned by one task."""

    def __init__(
        self, catalog: Catalog, props: Mapping[str, str], config: Mapping[str, Any], worker: Mapping[str, str]
    ) -> None:
        self.steps = _steps(catalog, props, config)
        self.key = _converter(catalog, "key", props, worker)
        self.value = _converter(catalog, "value", props, worker)
        self.header = _converter(catalog, "header", props, worker)

    @property
    def is_pure(self) -> bool:
        """Whether its transforms may go over records at once, and once more over the same ones."""
        return all(
            is_pure(each.transform) and (each.predicate is None or is_pure(each.predicate)) for each in self.steps
        )

    def transform_run(self, records: Iterable[R]) -> list[R | None]:
        """Of pure transforms: each record, or None where it is dropped. What it raises is about one of them: whoever
        calls goes on one by one then.
        """
        current: list[Any] = list(records)
        for step in self.steps:
            apply = step.transform.apply
            if step.predicate is None:
                current = [None if each is None else apply(each) for each in current]
            else:
                applies = step.applies
                current = [apply(each) if each is not None and applies(each) else each for each in current]
        return current

    def transform_columns(self, values: ValueColumns) -> ValueColumns | None:
        """Of pure transforms, as `transform_run`; no rows are left of what was dropped. None: not by columns."""
        current: ValueColumns | None = values
        for step in self.steps:
            assert current is not None
            if current.schema.type is not Type.STRUCT:  # what ExtractField left: the others look for fields
                return None
            if step.predicate is not None:
                holds = step.predicate.test_columns(current)
                if holds is None:
                    return None
                if holds == step.negate:
                    continue
            current = step.transform.apply_columns(current)
            if current is None or not len(current.columns[0]):
                return current
        return current

    def transform(self, record: ConnectRecord, original: Any, tolerance: Tolerance) -> ConnectRecord | None:
        """None: dropped. Raises Skipped or ConnectError by the tolerance."""
        current: ConnectRecord | None = record
        for step in self.steps:
            assert current is not None
            before = current
            current = tolerance.run(Stage.TRANSFORMATION, step.name, original, lambda: _apply(step, before))  # noqa: B023
            if current is None:
                return None
        return current

    def consumer_record(self, record: SinkRecord) -> ConsumerRecord:
        """Of a record that a sink task made itself: what Kafka would have had of it."""
        topic, time_ms = record.original_topic, record.timestamp_ms
        return ConsumerRecord(
            topic,
            record.original_partition,
            record.offset,
            -1 if time_ms is None else time_ms,
            record.timestamp_type,
            self.key.from_connect(topic, record.key_schema, record.key),
            self.value.from_connect(topic, record.value_schema, record.value),
            tuple((each.key, self.header.from_connect(topic, each.schema, each.value)) for each in record.headers),
            -1,
        )

    def close(self) -> None:
        """All of them, also behind one that raises."""
        with contextlib.ExitStack() as stack:
            for converter in (self.key, self.value, self.header):
                stack.callback(converter.close)
            for step in self.steps:
                stack.callback(step.transform.close)
                if step.predicate is not None:
                    stack.callback(step.predicate.close)


def _apply(step: Step, record: ConnectRecord) -> ConnectRecord | None:
    return step.transform.apply(record) if step.applies(record) else record


def _steps(catalog: Catalog, props: Mapping[str, str], config: Mapping[str, Any]) -> list[Step]:
    predicates: dict[str, Predicate] = {}
    for alias in config["predicates"]:
        own, parsed = _own(catalog, f"predicates.{alias}.", props, Kind.PREDICATE)
        predicate = catalog.find(parsed["type"], Kind.PREDICATE).make()
        predicate.configure(own)
        predicates[alias] = predicate
    steps = []
    for alias in config["transforms"]:
        own, parsed = _own(catalog, f"transforms.{alias}.", props, Kind.TRANSFORMATION)
        plugin = catalog.find(parsed["type"], Kind.TRANSFORMATION)
        transform = plugin.make()
        transform.configure(own)
        named = parsed["predicate"]
        steps.append(Step(plugin.name, transform, predicates[named] if named else None, parsed["negate"]))
    return steps


def _own(catalog: Catalog, prefix: str, props: Mapping[str, str], kind: Kind) -> tuple[dict[str, str], dict[str, Any]]:
    """What stands under the prefix, for the class; and of it what the worker looks at, as it was checked."""
    own = own_config(prefix, props)
    return own, ConfigDef(*step_keys(catalog, "", "", kind)).parse(own)


def _converter(catalog: Catalog, part: str, props: Mapping[str, str], worker: Mapping[str, str]) -> Converter:
    """The connector's own with its settings, else the worker's with the worker's."""
    name = f"{part}.converter"
    source = props if props.get(name) else worker
    default = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    kind = Kind.HEADER_CONVERTER if part == "header" else Kind.CONVERTER
    converter = catalog.find((source.get(name) or default).strip(), kind).make()
    assert isinstance(converter, Converter)
    converter.configure(converter_config(part, source), kind=part)
    return converter


def class_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
