"""Two workers of a group that a network cuts from each other: the one behind the cut still runs, reads its file and
reaches its database; what it sends arrives when another one has its tasks. Sources and sinks exactly once all the same.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from compat.support.cut_proxy import CutProxy
from compat.support.local_cluster import PATIENCE_S, until
from compat.support.quick import SOAK
from compat.support.server_process import server_process
from compat.test_connect_distributed import WorkerProcess, committed, owner, runs
from headwater.server.zookeeper.process import free_ports

ROUNDS = 15 if SOAK else 2
HOISTED = {"transforms": "row", "transforms.row.type": "HoistField$Value", "transforms.row.field": "line"}


@contextmanager
def broker_behind(proxies: dict[str, CutProxy], folder: Path) -> Iterator[str]:
    """A broker with a listener for each proxy, and one that nothing cuts."""
    cut = [f"{name}://127.0.0.1:{each.port}" for name, each in proxies.items()]
    properties = {
        "log.dirs": str(folder / "data"),
        "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *cut]),
        "advertised.listeners": ",".join(f"{name}://{each.address}" for name, each in proxies.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", *proxies)),
        "group.initial.rebalance.delay.ms": "0",
    }
    with server_process(properties, folder / "broker.log") as addresses:
        yield addresses["PLAINTEXT"]


def rows(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        try:
            return [line for (line,) in connection.execute("SELECT line FROM lines ORDER BY rowid")]
        except sqlite3.OperationalError:  # not made yet
            return []


def test_a_worker_behind_a_cut_writes_nothing_that_another_has_written(tmp_path: Path) -> None:
    file, database, lines = tmp_path / "in.txt", tmp_path / "out.db", [f"line {n}" for n in range(50)]
    file.write_text("".join(f"{each}\n" for each in lines))

    def append(word: str, count: int) -> None:
        more = [f"{word} {n}" for n in range(count)]
        lines.extend(more)
        with file.open("a") as appended:
            appended.write("".join(f"{each}\n" for each in more))

    source = {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": "t",
        "exactly.once.support": "required",
    }
    sink = {"connector.class": "JdbcSink", "topics": "t", "connection.url": f"jdbc:sqlite:{database}", "table.name.format": "lines", "auto.create": "true", "progress.table": "progress", **HOISTED}  # fmt: skip
    one, two = free_ports(2)
    proxies = {"ONE": CutProxy(one), "TWO": CutProxy(two)}
    with ExitStack() as held:
        for proxy in proxies.values():
            held.callback(proxy.close)
        direct = held.enter_context(broker_behind(proxies, tmp_path))
        workers = {each: held.enter_context(WorkerProcess(tmp_path, each.address, "g")) for each in proxies.values()}
        doors = [each.door for each in workers.values()]
        assert doors[0].ask("POST", "/connectors", {"name": "in", "config": source})[0] == 201
        assert doors[1].ask("POST", "/connectors", {"name": "out", "config": sink})[0] == 201
        for turn in range(ROUNDS):
            until(lambda: all(runs(door, name) for door in doors for name in ("in", "out")), "all runs on both")
            until(lambda: rows(database) == lines, "every row is there")
            name = ("in", "out")[turn % 2]
            cut = next(each for each, worker in workers.items() if worker.id == owner(doors[0], name))
            other = next(worker.door for each, worker in workers.items() if each is not cut)
            append(f"turn {turn} before", 200)  # some on their way when the cut comes
            cut.cut()
            append(f"turn {turn} behind", 200)
            until(
                lambda door=other, was=workers[cut].id: all(
                    runs(door, each) and owner(door, each) != was for each in ("in", "out")
                ),
                "the other one has both",
                4 * PATIENCE_S,
            )
            until(lambda: committed(direct, "t") == lines, "every line is there, once")
            until(lambda: rows(database) == lines, "and every row")
            assert cut.held_bytes > 0
            append(f"turn {turn} mended", 50)
            cut.mend()  # what it wanted to write arrives now
            until(lambda door=workers[cut].door: runs(door, "in") and runs(door, "out"), "it is of the group again")
            until(lambda: committed(direct, "t") == lines, "nothing came twice")
            until(lambda: rows(database) == lines, "nor any row")
        assert committed(direct, "t") == rows(database) == lines
