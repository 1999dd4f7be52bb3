"""The Streams application of the demo, in the test driver: pages are counted, visits end, and what is no page view
stops nobody.
"""

import json

from headwater.demo.view import Output, Snapshot, lines
from headwater.demo.visits import most_read, visits_app

START = 1_700_000_000_000


def view(page: str, at_s: float) -> bytes:
    return json.dumps({"page": page, "time_ms": START + int(at_s * 1000), "visitor": "x"}).encode()


def test_pages_and_visits() -> None:
    with visits_app("", "views", "visits").test() as driver:
        records: list[tuple[str, bytes]] = [
            ("ann", view("/", 0)),
            ("ann", view("/news", 12)),
            ("ben", view("/", 13)),
            ("ann", view("/sport", 14)),
            ("ann", b"GET / HTTP/1.1"),
            ("ann", b"{}"),
            ("ann", b'"/"'),
            ("cat", view("/", 60)),
        ]
        for key, value in records:
            driver.pipe("views", key, value)
        found = {row.key: row.value for row in driver.read("visits")}
        assert found == {
            "ann": {"visitor": "ann", "seconds": 14.0, "pages": 3, "path": ["/", "/news", "/sport"]},
            "ben": {"visitor": "ben", "seconds": 0.0, "pages": 1, "path": ["/"]},
        }
        assert driver.dropped == {"deserialization error": 1, "negative timestamp": 2}
        assert most_read(driver.store("pages").all(), 2) == [("/", 3), ("/news", 1)]


def test_a_view_between_two_visits_makes_them_one() -> None:
    with visits_app("", "views", "visits").test() as driver:
        for at_s in (0, 18, 16, 60):
            driver.pipe("views", "ann", view(f"/{at_s}", at_s))
        driver.pipe("views", "ben", view("/", 200))
        assert [(row.value["pages"], row.value["seconds"]) for row in driver.read("visits")] == [(1, 0.0), (2, 2.0), (1, 0.0)]  # fmt: skip


def test_the_terminal_shows_what_the_store_has() -> None:
    running = Output("streams", None, 7, 0, "2 records in website.visits", "running")
    shown = "\n".join(lines(Snapshot(5.0, "running", outputs=[running], most_read=[("/", 3), ("/news", 1)])))
    assert "as the store of Streams has it now: / 3, /news 1" in shown
    assert "starting" not in shown
