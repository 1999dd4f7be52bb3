"""RegexRouter and TimestampRouter: records go to another topic."""

from collections.abc import Mapping
from typing import Any

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REQUIRED, Pattern, text
from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.errors import DataError
from headwater.connect.java_regex import compile_java, expand
from headwater.connect.transforms.base import Transformation
from headwater.connect.transforms.columns import within_years
from headwater.connect.transforms.date_format import DateFormat


class RegexRouter(Transformation):
    is_pure = True
    doc = "Sends records to another topic: where the pattern matches all of the topic's name, its first match is replaced."
    config_def = ConfigDef(
        text("regex", REQUIRED, HIGH, "The pattern.", Pattern()),
        text("replacement", REQUIRED, HIGH, "What stands there instead; `$1` is the pattern's first group."),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._pattern, self._replacement = compile_java(config["regex"]), config["replacement"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        topic = record.topic
        if self._pattern.fullmatch(topic) is None:
            return record
        return record.replaced(topic=self._routed(topic))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if values.topic is None:
            return None
        return (
            values
            if self._pattern.fullmatch(values.topic) is None
            else values._replace(topic=self._routed(values.topic))
        )

    def _routed(self, topic: str) -> str:
        found = self._pattern.search(topic)
        routed: str = topic[: found.start()] + expand(found, self._replacement) + topic[found.end() :]
        return routed


class TimestampRouter(Transformation):
    is_pure = True
    doc = "Sends records to a topic with their timestamp in its name."
    config_def = ConfigDef(
        text("topic.format", "${topic}-${timestamp}", HIGH, "The name, with `${topic}` and `${timestamp}` in it."),
        text(
            "timestamp.format",
            "yyyyMMdd",
            HIGH,
            "The timestamp's format, in the letters of Java's SimpleDateFormat; UTC.",
        ),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._topic, self._format = config["topic.format"], DateFormat(config["timestamp.format"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        if record.timestamp_ms is None:
            raise DataError("Timestamp missing on record")
        stamp = self._format.format(millis_to_timestamp(record.timestamp_ms))
        topic = self._topic.replace("${topic}", record.topic)
        return record.replaced(topic=topic.replace("${timestamp}", stamp))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """The topics are made with the records, if somebody looks at these."""
        times = values.timestamps_ms()
        return None if times.null_count or not within_years(times) else values._replace(topic=None)
