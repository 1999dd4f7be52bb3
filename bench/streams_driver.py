"""`python -m bench.streams_driver COUNT`: how long the test driver takes from the import to the first output, and for
so many small topologies.
"""

import sys
import time
from typing import Any

began = time.perf_counter()

from headwater.streams import App  # noqa: E402 - the import is measured


def run(number: int) -> Any:
    """A filter, a map and a count; two records."""
    app = App(f"app-{number}")
    numbers = app.stream("in").filter(lambda value: value > 0).map_values(lambda value: value * 2)
    numbers.to("out")
    numbers.group_by_key().count().to_stream().to("counts")
    with app.test() as driver:
        driver.pipe("in", "k", 1)
        driver.pipe("in", "k", 0)
        (found,) = driver.read("out")
        (count,) = driver.read("counts")
        return found.value, count.value


def main() -> None:
    import json

    assert run(0) == (2, 1)
    first_ms = (time.perf_counter() - began) * 1e3
    count = int(sys.argv[1])
    second = time.perf_counter()
    for number in range(count):
        run(number)
    print(json.dumps({"first_ms": first_ms, "topologies": count, "seconds": time.perf_counter() - second}))


if __name__ == "__main__":
    main()
