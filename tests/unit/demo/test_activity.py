"""Visitors and the picture of them, without a broker, Spark or a terminal."""

import io
import json

from headwater.demo.activity import SITE, Website, due
from headwater.demo.view import Output, Screen, Section, Snapshot, lines


def test_the_same_seed_gives_the_same_visitors() -> None:
    first, second, other = Website(7), Website(7), Website(8)
    records = [first.next_record(now) for now in range(500)]
    assert records == [second.next_record(now) for now in range(500)]
    assert records != [other.next_record(now) for now in range(500)]


def test_visitors_read_pages_of_the_site_and_some_records_are_garbled() -> None:
    website = Website(7)
    garbled = 0
    visitors = set()
    for now in range(5000):
        key, value = website.next_record(now)
        try:
            view = json.loads(value)
        except ValueError:
            garbled += 1
            continue
        assert view["visitor"].encode() == key
        assert view["time_ms"] == now
        assert view["page"] in {page.path for page in SITE}
        visitors.add(key)
    assert 0 < garbled < 50
    assert len(visitors) > 500


def test_the_rate_is_kept_over_time() -> None:
    assert due(300, 1.0, 0) == 300
    assert due(300, 1.05, 300) == 15
    assert due(300, 1.0, 400) == 0


SNAPSHOT = Snapshot(
    elapsed_s=75,
    state="running",
    sent=22_500,
    rate_per_s=300,
    outputs=[Output("topic", None, 0, None, "0 records"), Output("sqlite", 12, 22_000, 500, "results.db")],
    window="2026-11-15 05:00:00",
    sections=[Section("news", 900, 300, 412), Section("help", 9, 8, 390)],
)


def test_the_picture() -> None:
    shown = lines(SNAPSHOT)
    assert shown[0].endswith("01:15  running")
    text = "\n".join(shown)
    assert "22,500 page views sent" in text
    assert "batch 12     lag 500" in text
    assert "starting" in text
    bars = {line.split()[0]: line.count("█") for line in shown if "█" in line}
    assert bars == {"news": 24, "help": 1}
    assert all(len(line) <= 120 for line in shown)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_drawn_over() -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.show(SNAPSHOT)
    height = len(lines(SNAPSHOT))
    screen.show(SNAPSHOT)
    assert terminal.getvalue().count(f"\x1b[{height}F\x1b[J") == 1


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    screen = Screen(out)
    for elapsed_s in range(12):
        screen.show(Snapshot(elapsed_s=elapsed_s, state="running"))
    screen.show(Snapshot(elapsed_s=12, state="ending"))
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["0", "5", "10", "12"]
    assert "\x1b" not in out.getvalue()
