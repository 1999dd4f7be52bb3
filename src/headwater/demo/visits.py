"""The Streams application of the demo: page views -> how often each page was read, and the visits that visitors made.

    website.views ──> pages: views of each page, in a store that the terminal asks
                 └──> visits: a session per visitor, until 15 s without a page ──> website.visits, when it is over

It runs in this process, beside the queries of Spark, and reads the same topic under a group of its own. What is no JSON
is skipped and counted. With a schema registry the visits are typed: Avro, with the schema of `Visit` under the subject
of their topic; without one they are JSON.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.streams import App, ErrorPolicy, Materialized, Windowed, session

if TYPE_CHECKING:
    from headwater.streams.serdes.port import Serde

NAME: Final = "demo-streams"
PAGES: Final = "pages"
GAP: Final = "15s"
LATE: Final = "5s"
KEPT: Final = Materialized(
    "visits", value="json", retention_ms=86_400_000
)  # visits of the last run end, though hours lie between
_PATH_MAX: Final = 20  # pages of a visit that are told


@dataclass(frozen=True, slots=True)
class Visit:
    """What is told of a visit that is over; in a registry, its schema."""

    visitor: str
    seconds: float
    pages: int
    path: list[str]


def visits_app(servers: str, views: str, visits: str, registry: str | None = None) -> App:
    app = App(NAME, brokers=servers, on_error=ErrorPolicy(deserialization="skip"))
    read = app.stream(views, timestamp=seen_at, name="views")
    read.group_by(lambda view: view["page"], name="by-page").count(name="pages", store=PAGES)
    by_visitor = read.group_by_key().windowed_by(session(GAP, grace=LATE)).emit("close")
    made = by_visitor.aggregate(no_visit, one_more_page, both, name="visits", store=KEPT, value="json")
    ended = made.to_stream(name="ended")
    typed = "json" if registry is None else avro_visits(registry, visits)
    ended.map(lambda key, visit: (key.key, told(key, visit)), name="told", key="text", value=typed).to(visits)
    return app


def avro_visits(registry: str, topic: str) -> "Serde":
    """Values as Confluent's serializers write them: the id of the schema, then Avro."""
    from headwater.client.schema_registry import AvroDeserializer, AvroSerializer, SchemaRegistryClient
    from headwater.streams.serdes.stock import FunctionSerde

    client = SchemaRegistryClient(registry)
    write, read = AvroSerializer(client, Visit), AvroDeserializer(client)
    return FunctionSerde(
        "avro", lambda visit: write.serialize(topic, visit) or b"", lambda data: read.deserialize(topic, data)
    )


def seen_at(view: Any) -> int:
    """-1, which leaves a record out, for JSON that is no page view."""
    if not isinstance(view, dict) or not isinstance(view.get("page"), str):
        return -1
    time_ms = view.get("time_ms")
    return time_ms if isinstance(time_ms, int) else -1


def no_visit() -> dict[str, Any]:
    return {"pages": 0, "path": []}


def one_more_page(visit: dict[str, Any], view: dict[str, Any]) -> dict[str, Any]:
    return {"pages": visit["pages"] + 1, "path": [*visit["path"], view["page"]][:_PATH_MAX]}


def both(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Two sessions that a view between them has made one."""
    return {"pages": one["pages"] + two["pages"], "path": [*one["path"], *two["path"]][:_PATH_MAX]}


def told(key: Windowed, visit: dict[str, Any]) -> dict[str, Any]:
    return asdict(Visit(key.key, round((key.end - key.start) / 1000, 1), visit["pages"], visit["path"]))


def most_read(rows: Iterable[tuple[str, tuple[int, int]]], count: int = 3) -> list[tuple[str, int]]:
    """Pages and their views, the most read first. `rows` of the store: by page, how often it was read, and when it was
    last.
    """
    found = [(page, views) for page, (views, _) in rows]
    return sorted(found, key=lambda each: (-each[1], each[0]))[:count]
