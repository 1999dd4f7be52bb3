"""`@vectorized`: what its function gets of records, and what is said where it cannot be called."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.base.errors import UserError
from headwater.streams import App, StreamsError, vectorized


@dataclass
class Order:
    amount: float
    country: str = "de"


@vectorized({"amount": float, "country": str})
def net(orders: pa.StructArray) -> pa.Array:
    abroad = pc.not_equal(orders.field("country"), "de")
    return pc.if_else(abroad, orders.field("amount"), pc.divide(orders.field("amount"), 1.25))


@vectorized(float, int)
def total(amounts: pa.Array, counts: pa.Array) -> pa.Array:
    return pc.multiply(amounts, counts)


def results(app: App, *values: Any) -> list[Any]:
    with app.test() as driver:
        for value in values:
            driver.pipe("in", "k", value)
        return [row.value for row in driver.read("out")]


def test_fields_are_taken_from_dicts_and_objects_and_may_be_missing() -> None:
    app = App("plain")
    app.stream("in").map_values(net).to("out")
    assert results(app, {"amount": 10, "country": "de", "x": 1}, {"amount": 10, "country": "fr"}, {"amount": 5}) == [
        8.0,
        10.0,
        None,
    ]
    typed = App("typed", value=Order)
    typed.stream("in").map_values(net).to("out", value="double")
    assert results(typed, Order(10.0), Order(10.0, "fr")) == [8.0, 10.0]


def test_a_filter_takes_what_is_true() -> None:
    app = App("filters")
    orders = app.stream("in")
    orders[total(orders.amount, orders.count) > 9].select("amount", total=total(orders.amount, 2)).to("out")
    assert results(app, {"amount": 5, "count": 2}, {"amount": 4, "count": 2}, {"amount": None, "count": 2}) == [
        {"amount": 5, "total": 10.0}
    ]


def test_keys_and_values() -> None:
    @vectorized(str, {"n": int})
    def same(keys: pa.Array, values: pa.StructArray) -> pa.Array:
        return pc.and_kleene(pc.equal(keys, "k"), pc.greater(values.field("n"), 1))

    app = App("keys")
    app.stream("in").filter(same).to("out")
    assert results(app, {"n": 1}, {"n": 2}) == [{"n": 2}]


def test_it_is_an_ordinary_function_of_arrays() -> None:
    assert total(pa.array([2.0]), pa.array([3])).to_pylist() == [6.0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda values: pc.sum(values), "gave DoubleScalar"),
        (lambda values: values.slice(1), "gave 0 results for 1 records"),
        (lambda values: values.to_pylist(), "gave list"),
    ],
)
def test_what_is_no_column_of_results_is_refused(given: Any, why: str) -> None:
    app = App("wrong")
    app.stream("in").map_values(vectorized(float)(given)).to("out")
    with pytest.raises(StreamsError, match=why):
        results(app, 1.0)


def test_a_value_that_does_not_fit_the_type_names_its_record() -> None:
    app = App("types")
    app.stream("in").map_values(vectorized(float)(lambda values: values)).to("out")
    with pytest.raises(StreamsError, match="in-0 offset 1"):
        results(app, 1.0, "one")


def test_types_must_be_said() -> None:
    with pytest.raises(UserError, match="needs the types"):

        @vectorized
        def nothing(values: pa.Array) -> pa.Array:
            return values

    with pytest.raises(UserError, match="no type of a column"):
        vectorized("flaot")
    with pytest.raises(UserError, match="takes 2 columns, not 1"):
        total(App("few").stream("in").amount)
    with pytest.raises(UserError, match="takes 3 columns"):
        App("many").stream("in").map_values(vectorized(int, int, int)(lambda a, b, c: a))


def test_a_value_that_is_none_is_null_as_a_whole() -> None:
    @vectorized({"n": int})
    def absent(values: pa.StructArray) -> pa.Array:
        return pc.is_null(values)

    assert absent.results([[{"n": 1}, None, {}]]) == [False, True, False]


def test_a_field_that_is_missing_is_null_of_dicts_and_of_objects() -> None:
    @vectorized({"n": int})
    def numbers(values: pa.StructArray) -> pa.Array:
        return values.field("n")

    assert numbers.results([[{"n": 1}, {}, SimpleNamespace(n=2), SimpleNamespace(m=3)]]) == [1, None, 2, None]
