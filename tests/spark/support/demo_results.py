"""Page views for the demo's pipeline, and what its outputs must hold then: counted by a loop, read without Spark."""

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pyarrow.parquet

from headwater.client import Admin, NewTopic, Producer, read
from headwater.demo import demo_run
from headwater.demo.activity import SITE, Website

SECTION_OF = {page.path: page.section for page in SITE}
BEGIN_MS = 1_700_000_000_000
ROUND_MS = 30_000


class Visits:
    """Rounds of page views, each half a minute of event time after the one before."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._website = Website(seed=5)
        self._rounds = 0
        self._windows: Counter[tuple[int, str]] = Counter()
        self.count = 0
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(demo_run.VIEWS, 3), NewTopic(demo_run.SECTIONS, 3)])

    def send(self, count: int = 1500) -> None:
        with Producer(bootstrap_servers=self._servers) as producer:
            for number in range(count):
                now_ms = BEGIN_MS + self._rounds * ROUND_MS + number * ROUND_MS // count
                key, value = self._website.next_record(now_ms)
                producer.send(demo_run.VIEWS, value, key=key)
                if value.startswith(b"{"):
                    self.count += 1
                    self._windows[now_ms // 10_000 * 10, SECTION_OF[json.loads(value)["page"]]] += 1
        self._rounds += 1

    def check(self, directory: Path) -> None:
        """Each view is in the table and the files once; the topic has each window that is over, once."""
        database = sqlite3.connect(directory / "results.db")
        rows = database.execute("SELECT unixepoch(window_start), section, views FROM sections").fetchall()
        database.close()
        assert {(start, section): views for start, section, views in rows} == dict(self._windows)
        files = list((directory / "views").glob("topic=*/partition=*/*.parquet"))
        assert sum(pyarrow.parquet.read_metadata(file).num_rows for file in files) == self.count
        frame = read(
            demo_run.SECTIONS, bootstrap_servers=self._servers, progress=False, isolation_level="read_committed"
        )
        final = [json.loads(value) for value in frame.to_arrow().column("value").to_pylist()]
        assert len(final) == len({(each["window_start"], each["section"]) for each in final}), "no window twice"
        # The last round pushed the watermark to 20 seconds before its end: what began before that and is over, is out.
        watermark = (BEGIN_MS + self._rounds * ROUND_MS) // 1000 - 20
        over = sum(views for (start, _), views in self._windows.items() if start + 10 <= watermark - 1)
        assert sum(each["views"] for each in final) >= over > 0
        found = Counter({(each["window_start"], each["section"]): each["views"] for each in final})
        by_text = {_text(start): start for start, _ in self._windows}
        for (start, section), views in found.items():
            assert self._windows[by_text[start], section] == views, "a window in the topic is whole"


def _text(start_s: int) -> str:
    """As Spark writes it into JSON."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
