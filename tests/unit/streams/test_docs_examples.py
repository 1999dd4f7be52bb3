"""What docs/STREAMS.md shows runs as it stands."""

from pathlib import Path
from typing import Any

import headwater.streams

TEXT = Path(__file__).parents[3].joinpath("docs/STREAMS.md").read_text()


def block(beginning: str) -> str:
    """The code that has this line."""
    blocks = [part.split("```")[0] for part in TEXT.split("```python\n")[1:]]
    (found,) = [code for code in blocks if beginning in code]
    return found


def test_the_first_application_and_its_test() -> None:
    names: dict[str, Any] = {}
    exec(block("large = orders[orders.amount > 100]") + block("def test_revenue()"), names)
    names["test_revenue"]()


def test_the_processor() -> None:
    names: dict[str, Any] = {name: getattr(headwater.streams, name) for name in headwater.streams.__all__}
    names["app"] = app = headwater.streams.App("app")
    exec(block("class Alarm(Processor):"), names)
    driver = app.test()
    driver.pipe("beats", "a", {"n": 1}, 5)
    assert [(record.key, record.value) for record in driver.read("alarms")] == [("a", "ok")]
    assert driver.store("seen").get("a") == 5


def test_functions_of_arrays() -> None:
    names: dict[str, Any] = {}
    exec(block("@vectorized(float, int)"), names)
    with names["app"].test() as driver:
        driver.pipe("orders", "1", {"amount": 125, "count": 2, "country": "de"})
        assert [record.value for record in driver.read("net")] == [100.0]
        assert [record.value for record in driver.read("large")] == [{"country": "de", "total": 250.0}]
