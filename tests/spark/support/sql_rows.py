"""Rows for persistent queries of a SQL server, and whether each was taken once."""

import json
from collections import Counter
from typing import Any

from compat.support.local_cluster import until
from compat.support.sql_server import SqlServer
from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer

ROWS = 300  # of each round
PARTITIONS = 4
PATIENCE_S = 600
STATEMENTS = f"""
CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='given', value_format='JSON', partitions={PARTITIONS});
CREATE TABLE totals AS SELECT n, COUNT(*) AS c, SUM(v) AS total FROM s GROUP BY n;
CREATE STREAM copies WITH (kafka_topic='copies') AS SELECT id, v * 2 AS twice FROM s;
"""


class Given:
    """Rows for the queries, and what they make of them."""

    def __init__(self, server: SqlServer, servers: str) -> None:
        self._server, self._servers = server, servers
        self._sent = 0

    def send(self) -> None:
        with Producer(bootstrap_servers=self._servers) as producer:
            for number in range(self._sent, self._sent + ROWS):
                row = {"n": f"n{number % 7}", "v": number}
                producer.send("given", json.dumps(row).encode(), key=number.to_bytes(4), partition=number % PARTITIONS)
        self._sent += ROWS

    def check(self) -> None:
        """Each row was taken once, and the states that are shown are those of queries that do their work."""
        names = sorted({number % 7 for number in range(self._sent)})
        totals = [[f"n{n}", len(range(n, self._sent, 7)), sum(range(n, self._sent, 7))] for n in names]
        self._until(lambda: self._server.ask("SELECT * FROM totals ORDER BY n;") == totals)
        self._until(lambda: len(self._copies()) >= self._sent)
        assert self._copies() == Counter((number, 2 * number) for number in range(self._sent))
        told = self._server.run("SHOW QUERIES;")[0]["queries"]
        assert {each["state"] for each in told} == {"RUNNING"}

    def _until(self, condition: Any) -> None:
        until(condition, self._server.log[-3000:], PATIENCE_S)

    def _copies(self) -> Counter[tuple[int, int]]:
        """What a reader of committed records finds."""
        places = [TopicPartition("copies", partition) for partition in range(PARTITIONS)]
        found: Counter[tuple[int, int]] = Counter()
        with Consumer(
            bootstrap_servers=self._servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                for record in consumer.poll(1.0):
                    found[int.from_bytes(record.key), json.loads(record.value)["TWICE"]] += 1
        return found
