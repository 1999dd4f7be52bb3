"""Functions that change the aggregate that they are given and return it, as Python's lists and dicts are added to: what
goes on, also what is subtracted later, is what one gets of functions that make a new one each time.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headwater.streams import App, hopping, session, sliding, tumbling
from headwater.streams.dsl.table import Table

Add = Callable[[dict[str, int], dict[str, int]], dict[str, int]]


def adds_anew(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    return {"n": total["n"] + value["n"]}


def adds_to_it(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    total["n"] += value["n"]
    return total


def subtracts_anew(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    return {"n": total["n"] - value["n"]}


def subtracts_from_it(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    total["n"] -= value["n"]
    return total


def nothing() -> dict[str, int]:
    return {"n": 0}


def windowed(windows: Any) -> Callable[[App, Add, Add], Table]:
    grouped: Callable[[App], Any] = lambda app: app.stream("in").group_by_key().windowed_by(windows)  # noqa: E731
    if "Session" in type(windows).__name__:
        return lambda app, add, _: grouped(app).aggregate(nothing, add, add)
    return lambda app, add, _: grouped(app).aggregate(nothing, add)


TABLES: dict[str, Callable[[App, Add, Add], Table]] = {
    "aggregate": lambda app, add, _: app.stream("in").group_by_key().aggregate(nothing, add),
    "reduce": lambda app, add, _: app.stream("in").group_by_key().reduce(add),
    "cogroup": lambda app, add, _: app.stream("in").group_by_key().cogroup(add).aggregate(nothing),
    "of a table": lambda app, add, subtract: (
        app.table("in").group_by(lambda value: (str(value["n"] % 3), value)).aggregate(nothing, add, subtract)
    ),
    "reduce of a table": lambda app, add, subtract: (
        app.table("in").group_by(lambda value: (str(value["n"] % 3), value)).reduce(add, subtract)
    ),
    "tumbling": windowed(tumbling(10, grace=30)),
    "hopping": windowed(hopping(10, 5, grace=30)),
    "sliding": windowed(sliding(10, grace=30)),
    "sliding by one": windowed(sliding(1)),
    "sessions": windowed(session(5, grace=30)),
    "reduce of windows": lambda app, add, _: (
        app.stream("in").group_by_key().windowed_by(tumbling(10, grace=30)).reduce(add)
    ),
    "reduce of sessions": lambda app, add, _: (
        app.stream("in").group_by_key().windowed_by(session(5, grace=30)).reduce(add)
    ),
}


def results(make: Callable[[App, Add, Add], Table], add: Add, subtract: Add, old_values: bool, seed: int) -> list[Any]:
    app = App("app")
    table = make(app, add, subtract)
    table.to_stream(lambda key, value: str(key)).to("rows")
    if old_values:
        table.group_by(lambda value: ("all", value["n"]), value="long").sum().to_stream().to("sums", value="long")
    dice, now = random.Random(seed), 20
    with app.test() as driver:
        for _ in range(60):
            now += dice.choice((0, 1, 1, 3, 12))
            at = max(0, now - dice.choice((0, 0, 0, 4, 9, 18)))
            driver.pipe("in", dice.choice("ab"), {"n": dice.randrange(1, 100)}, at)
        rows = [(record.key, record.value, record.timestamp) for record in driver.read("rows")]
        return [rows, [record.value for record in driver.read("sums")] if old_values else []]


@pytest.mark.parametrize("old_values", [False, True])
@pytest.mark.parametrize("what", TABLES)
def test_an_aggregate_that_is_changed_in_place_gives_what_a_new_one_gives(what: str, old_values: bool) -> None:
    for seed in range(5):
        anew = results(TABLES[what], adds_anew, subtracts_anew, old_values, seed)
        in_place = results(TABLES[what], adds_to_it, subtracts_from_it, old_values, seed)
        assert in_place == anew, seed
