"""What `.df` and `from_df` add to a topology: topics, their partitions and configs, and columns by serde. No Spark is
started.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, session, tumbling
from headwater.streams.model.windows import Windowed
from headwater.streams.plan.frame_types import column_type
from headwater.streams.serdes.resolving import resolve
from headwater.streams.serdes.windowed import WindowedSerde
from headwater.streams.topics.plan import plan_topics


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    product: str
    count: int


@dataclass
class Order:
    customer: str
    amount: float
    at: datetime
    lines: list[Line]
    colour: Colour
    prices: dict[str, float]
    note: str | None = None
    parent: "Order | None" = None


def make(*, frames: bool) -> App:
    app = App("app")
    orders = app.stream("orders")
    large = orders.filter(lambda order: order["amount"] > 10)
    if frames:
        large.frame_point(name="large")
    counts = large.group_by(lambda order: order["customer"]).count(name="counts")
    if frames:
        counts.frame_point()
    counts.to_stream().to("out")
    return app


def test_other_operators_keep_their_names() -> None:
    plain = set(make(frames=False).topology().nodes)
    both = set(make(frames=True).topology().nodes)
    assert plain <= both
    assert both - plain == {
        "app-large-df-sink",
        "app-counts-df-changes",
        "app-counts-df-sink",
    }


def test_topics_have_the_partitions_of_their_tasks_and_tables_are_compacted() -> None:
    plan = plan_topics("app", make(frames=True).topology(), {"orders": 3})
    assert [(each.name, each.partitions, dict(each.config)) for each in plan.frames] == [
        ("app-large-df", 3, {}),
        ("app-counts-df", 3, {"cleanup.policy": "compact"}),
    ]
    assert not [each for each in plan.internal if each.name.endswith("-df")]


def test_the_records_of_a_point_are_in_its_topic() -> None:
    with make(frames=True).test() as driver:
        driver.pipe("orders", "1", {"customer": "ann", "amount": 20}, timestamp=5)
        driver.pipe("orders", "2", {"customer": "ann", "amount": 2}, timestamp=6)
        driver.pipe("orders", "3", {"customer": "ann", "amount": 30}, timestamp=7)
        assert [(row.key, row.timestamp) for row in driver.read_raw("app-large-df")] == [(b"1", 5), (b"3", 7)]
        counts = driver.read_raw("app-counts-df")
        assert [(row.key, row.value) for row in counts] == [(b"ann", bytes(7) + b"\1"), (b"ann", bytes(7) + b"\2")]


def test_a_point_that_is_a_topic_needs_no_other() -> None:
    app = App("app")
    assert app.stream("a", "b").frame_point().topics == ("a", "b")
    assert app.table("rows").frame_point().topics == ("rows",)
    everywhere = app.global_table("names", key="long", value="text").frame_point()
    assert (everywhere.topics, everywhere.of_table) == (("names",), True)
    assert (everywhere.key.name, everywhere.value.name) == ("long", "text")
    assert app.topology().frame_topics == {}


def test_a_point_is_added_once_and_not_to_an_application_that_runs() -> None:
    app = App("app")
    stream = app.stream("in").filter(lambda value: value)
    stream.frame_point()
    before = app.describe()
    app.current_run = SimpleNamespace(running=True)  # type: ignore[assignment]
    stream.frame_point()
    assert app.describe() == before
    with pytest.raises(UserError, match="runs already"):
        stream.frame_point(name="other")
    app.current_run = SimpleNamespace(running=False)  # type: ignore[assignment]
    stream.frame_point(name="other")
    assert "app-other-df" in app.describe()


def test_a_frame_that_is_read_is_a_stream_of_its_topic() -> None:
    app = App("app")
    prices = app.from_df(lambda spark: None, "prices", partitions=4, value="double")
    prices.map_values(lambda price: price * 2).to("out", value="double")
    topic = app.topology().frame_topics["app-prices-df"]
    assert (topic.is_input, topic.partitions) == (True, 4)
    assert plan_topics("app", app.topology(), {"app-prices-df": 4}).frames == []
    with app.test() as driver:
        driver.pipe("app-prices-df", "tea", 1.5)
        assert [row.value for row in driver.read("out")] == [3.0]
    with pytest.raises(UserError, match="Two DataFrames are named prices"):
        app.from_df(lambda spark: None, "prices")
    with pytest.raises(UserError, match="cannot have 0 partitions"):
        app.from_df(lambda spark: None, "none", partitions=0)
    with pytest.raises(UserError, match="needs a name"):
        app.from_df(lambda spark: None, "")


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        ("bytes", "binary"),
        ("text", "string"),
        ("json", "json"),
        ("short", "smallint"),
        (int, "bigint"),
        ("float", "float"),
        (Line, "struct<`product`:string,`count`:bigint>"),
    ],
)
def test_columns_by_serde(serde: Any, column: str) -> None:
    assert column_type(resolve(serde)) == column


def test_the_columns_of_a_record_are_its_annotations() -> None:
    text = column_type(resolve(Order))
    assert text.startswith(
        "struct<`customer`:string,`amount`:double,`at`:timestamp,"
        "`lines`:array<struct<`product`:string,`count`:bigint>>,`colour`:string,`prices`:map<string,double>,"
        "`note`:string,`parent`:struct<"
    )
    assert text.count("`parent`:") < 30  # a type that has itself as a field ends somewhere


def test_windowed_keys_are_structs() -> None:
    app = App("app")
    grouped = app.stream("in").group_by_key()
    for windows in (tumbling("10s"), session("10s")):
        point = grouped.windowed_by(windows).count().frame_point()
        assert column_type(point.key) == "struct<key:string,start:bigint,end:bigint>"
        assert column_type(point.value) == "bigint"


@pytest.mark.parametrize(
    ("serde", "key", "column"),
    [
        ("text", "a", "a"),
        ("long", 5, 5),
        ("bytes", b"a", b"a"),
        ("json", {"a": "é"}, '{"a":"é"}'),
        (Line, Line("apple", 3), '{"product":"apple","count":3}'),
    ],
)
def test_the_key_of_a_window_may_be_of_any_serde(serde: Any, key: Any, column: Any) -> None:
    """Of a typed record it is JSON text, as in a key without a window."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    from headwater.streams.frames import _decoder

    windowed = WindowedSerde(resolve(serde), lambda start: start + 10)
    cells = pa.array([windowed.serialize(Windowed(key, 20, 30)), None])
    decode = _decoder(windowed, column_type(windowed))
    assert decode(cells).to_pylist() == [{"key": column, "start": 20, "end": 30}, None]
