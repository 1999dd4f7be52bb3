"""Column expressions, with SQL's rules for what is missing."""

import pytest

from headwater.base.errors import UserError
from headwater.streams import App
from headwater.streams.dsl.expressions import KEY, Column, column, field

N = field("n")
ROW = {"n": 4, "s": "x", "none": None, "in": {"deep": 2}, "yes": True, "no": False}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (N + 1, 5), (1 + N, 5), (N - 1, 3), (10 - N, 6), (N * 1.5, 6.0), (2 * N, 8), (N / 8, 0.5), (8 / N, 2.0), (N % 3, 1), (-N, -4),
        (N / 0, None), (N % 0, None), (N % 0.0, None), (N > 3, True), (N >= 5, False), (N < 5, True), (N <= 4, True), (N == 4, True), (N != 4, False),
        (field("none") + 1, None), (field("missing") > 1, None), (field("none") == N, None),
        (field("in")["deep"] * 2, 4), (field("in").deep, 2), (field("none").deep, None),
        (field("yes") & field("none"), None), (field("no") & field("none"), False), (field("none") & field("no"), False),
        (field("yes") | field("none"), True), (field("no") | field("none"), None), (field("none") | field("yes"), True),
        (~field("yes"), False), (~field("none"), None), (field("yes") & True, True), (field("no") | False, False),
        (field("none").is_null(), True), (N.is_not_null(), True), (N.is_in([1, 4]), True), (field("none").is_in([1]), None),
        (field("none").or_else(N), 4), (N.or_else(1), 4), (KEY == "k", True), (column(3) + N, 7),
    ],
    ids=lambda value: value.text if isinstance(value, Column) else repr(value),
)  # fmt: skip
def test_values(expression, expected) -> None:
    assert expression.evaluate("k", ROW) == expected


def test_streams_read_like_frames() -> None:
    app = App("app")
    orders = app.stream("orders")
    large = orders[(orders.amount > 100) & (orders["name"] != "test")]
    large.select("name", orders.amount, total=orders.amount * 1.5, fixed=1, who=orders.key).to("out")
    large.group_by(orders["name"]).sum(orders.amount).to_stream().to("sums")
    table = app.table("table")
    table[table.n > 1].select(twice=table.n * 2).to_stream().to("rows")
    driver = app.test()
    for name, amount in (("ann", 50), ("ann", 200), ("test", 300), ("bob", None), ("ann", 300)):
        driver.pipe("orders", "k", {"name": name, "amount": amount}, 1)
    driver.pipe("table", "k", {"n": 5}, 1)
    assert [record.value for record in driver.read("out")] == [
        {"name": "ann", "amount": 200, "total": 300.0, "fixed": 1, "who": "k"},
        {"name": "ann", "amount": 300, "total": 450.0, "fixed": 1, "who": "k"},
    ]
    assert [(record.key, record.value) for record in driver.read("sums")] == [("ann", 200), ("ann", 500)]
    assert [record.value for record in driver.read("rows")] == [{"twice": 10}]


def test_words_for_mistakes() -> None:
    stream = App("app").stream("in")
    with pytest.raises(UserError, match="no method of that name"):
        stream.fliter(lambda v: True)
    with pytest.raises(UserError, match="has no truth of its own"):
        bool(stream.a > 1 and stream.b > 1)
    for goes_through in (list, sum, lambda numbers: 5 in numbers):  # 0, 1, 2 ... are names of fields, without end
        with pytest.raises(UserError, match="has no elements"):
            goes_through(stream.numbers)
