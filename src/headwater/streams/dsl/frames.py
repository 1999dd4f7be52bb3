"""`.df(spark)` of streams and tables, and `app.from_df(frame)`: what they add to the graph. What Spark does then is in
`streams.frames`.

A point of the topology that is a topic already is read from there. Any other gets a sink into a topic of its own, which
the existing source of Spark reads: so a DataFrame sees what the application has committed, each result once. A
DataFrame that the application reads is written to a topic by the exactly-once sink, in a query that runs as long as the
application does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.streams.plan.frames import TABLE_CONFIG, FrameSinkNode, FrameTopic, frame_sink_of, frame_topic_name
from headwater.streams.plan.graph import GraphNode
from headwater.streams.plan.sources import StreamSourceNode
from headwater.streams.plan.tables import GlobalStoreNode, TableSourceNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.stream import Stream

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FramePoint:
    """Where a DataFrame reads: topics, and how their bytes are to be understood."""

    topics: tuple[str, ...]
    key: Serde
    value: Serde
    of_table: bool


@dataclass(frozen=True, slots=True)
class FrameFeed:
    """A DataFrame that is written to a topic of the application while it runs."""

    name: str
    topic: str
    frame: "DataFrame | Callable[[SparkSession], DataFrame]"
    key: Serde
    value: Serde
    key_column: str | None
    checkpoint: str | None
    options: Mapping[str, str] = field(default_factory=dict)


class HasFrames:
    """What streams, tables and global tables share: `.df(spark)`."""

    app: "App"
    node: GraphNode
    name: str
    key_serde: Serde | None
    value_serde: Serde | None
    is_table = False

    def df(
        self,
        spark: "SparkSession | None" = None,
        *,
        batch: bool = False,
        schema: "str | StructType | None" = None,
        name: str | None = None,
        options: Mapping[str, str] = NOTHING,
    ) -> "DataFrame":
        """The records of this point as a streaming DataFrame; with `batch` those that are there now, and of a table its
        rows.

        `schema`: of JSON values, where no type of records tells it. `name`: in the topic's name, instead of the
        operator's. `options`: further ones of `format("headwater")`, such as `kafka.security.protocol` or
        `startingOffsets`. Without `spark`, the active session.
        """
        from headwater.streams.frames import read_frame

        return read_frame(self.app, self.frame_point(name), spark, batch=batch, schema=schema, options=options)

    def frame_point(self, name: str | None = None) -> FramePoint:
        """Where `.df` reads; the sink is added if there is none yet."""
        app = self.app
        key, value = self.key_serde or app.default_key, self.value_serde or app.default_value
        topics = _topics_of(self.node)
        if topics is None:
            topic = frame_topic_name(app.name, name or self.name)
            if frame_sink_of(self.node, topic) is None:
                app.refuse_change(f"it does not write {topic}, which .df would read")
                kept = FrameTopic(topic, is_input=False, config=TABLE_CONFIG if self.is_table else NOTHING)
                app.graph.add(self.node, FrameSinkNode(kept, key, value, of_table=self.is_table))
            topics = (topic,)
        return FramePoint(topics, key, value, self.is_table)


def _topics_of(node: GraphNode) -> tuple[str, ...] | None:
    """Of a source that reads topics of users by name."""
    if isinstance(node, StreamSourceNode) and node.pattern is None:
        return node.topics
    return node.source.topics if isinstance(node, TableSourceNode | GlobalStoreNode) else None


def from_df(
    app: "App",
    frame: "DataFrame | Callable[[SparkSession], DataFrame]",
    name: str,
    *,
    key: SerdeLike | None,
    value: SerdeLike | None,
    key_column: str | None,
    timestamp: Callable[..., Any] | None,
    partitions: int | None,
    checkpoint: str | None,
    options: Mapping[str, str],
) -> "Stream":
    """`App.from_df`."""
    topic = frame_topic_name(app.name, name)
    if topic in app.graph.frame_inputs:
        raise UserError(f"Two DataFrames are named {name}", f"both would be written to {topic}", "Give each a name")
    if partitions is not None and partitions < 1:
        raise UserError(f"A topic cannot have {partitions} partitions", "it needs at least one")
    key_serde, value_serde = resolve_optional(key), resolve_optional(value)
    stream = app.stream(topic, key=key_serde, value=value_serde, timestamp=timestamp, reset="earliest")
    app.graph.frame_inputs[topic] = FrameTopic(topic, is_input=True, partitions=partitions)
    app.feeds.append(
        FrameFeed(
            name,
            topic,
            frame,
            key_serde or app.default_key,
            value_serde or app.default_value,
            key_column,
            checkpoint,
            dict(options),
        )
    )
    return stream
