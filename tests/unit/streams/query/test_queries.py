"""Interactive queries: what is asked, what is answered, over HTTP and over several hosts; without a broker."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.types import EARLIEST
from headwater.streams import App, Materialized, Windowed, key_value_store, session, tumbling
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.query import answers, connect
from headwater.streams.query.answers import answer
from headwater.streams.query.directory import Host, partitions_here
from headwater.streams.query.local import LocalStore
from headwater.streams.query.readable import NotReady, store_plan
from headwater.streams.query.server import QueryServer
from headwater.streams.query.slots import LeadDirectory, SlotDirectory
from headwater.streams.query.state_reader import StateReader
from headwater.streams.query.store_query import BadStoreQuery, encode, from_json, from_text, parse, plain
from headwater.streams.serdes.resolving import resolve
from headwater.streams.serdes.stock import TEXT
from headwater.streams.slot import open_task
from headwater.streams.slot.changelog_rows import ChangelogRows
from headwater.streams.slot.open_task import Clients, OpenTask
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreKind
from headwater.streams.stores.state import Owner, is_copied, mark_copy
from headwater.streams.stores.task_counts import write_task_counts
from headwater.streams.testing.driver import Driver
from headwater.streams.topology.topology import SubTopology

TOKEN = "a-secret-of-this-test"


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int


class Shown:
    """A task of the test driver, as queries see tasks."""

    def __init__(self, task: Task, state: MemoryState, ready: bool = True) -> None:
        self._task = task
        self._state = state
        self.ready = ready
        self.asked = 0

    @property
    def plan(self) -> SubTopology:
        return self._task.plan

    @property
    def partition(self) -> int:
        return self._task.partition

    @property
    def settings(self) -> TaskSettings:
        return self._task.settings

    @contextmanager
    def snapshot(self) -> Iterator[MemoryState]:
        if not self.ready:
            raise NotReady("The state of task 0_0 is not open", "", "Ask again")
        self.asked += 1
        yield self._state


class Elsewhere(Shown):
    """Of an application that puts keys where it likes."""

    @property
    def partition(self) -> int:
        return (self._task.partition + 1) % 4


class Hosts:
    """A `Directory` of a test."""

    def __init__(self, count: int) -> None:
        self.known: list[Host] = []
        self._count = count

    def others(self) -> Sequence[Host]:
        return self.known

    def partitions(self, store: str) -> int:
        return self._count


def shown(driver: Driver) -> list[Shown]:
    return [Shown(task, driver._states[task]) for task in driver.tasks]


def fruit(partitions: int = 1) -> Driver:
    app = App("fruit", key="text", value="text")
    grouped = app.stream("in").group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(tumbling("10s", grace="1m")).count(store="windows")
    grouped.windowed_by(session("5s", grace="1m")).count(store="sessions")
    app.table("prices", store=Materialized("versions", history_ms=60_000))
    driver = app.test(partitions=partitions)
    for key, at in (("apple", 1_000), ("apricot", 2_000), ("apple", 12_000), ("banana", 13_000)):
        driver.pipe("in", key, "x", at)
    for value, at in (("1", 1_000), ("2", 5_000)):
        driver.pipe("prices", "apple", value, at)
    return driver


@pytest.fixture
def served() -> Iterator[tuple[Any, list[Shown]]]:
    with fruit() as driver:
        tasks = shown(driver)
        with (
            QueryServer("fruit", lambda: tasks, token=TOKEN).start() as server,
            connect(server.url, TOKEN) as client,
        ):
            yield client, tasks


def test_a_key_value_store_is_asked_by_key_range_and_prefix(served: Any) -> None:
    counts = served[0].store("counts")
    assert counts.get("apple") == {"partition": 0, "value": 2, "timestamp": 12_000}
    assert counts.get("cherry") is None
    assert list(counts.range("apricot", "banana").keys) == ["apricot", "banana"]
    assert list(counts.range(upper="apricot", reverse=True).keys) == ["apricot", "apple"]
    assert list(counts.prefix("ap").keys) == ["apple", "apricot"]
    assert counts.count() == 3
    assert counts.prefix("ap", limit=1).truncated
    assert not counts.prefix("ap", limit=2).truncated


def test_windows_sessions_and_versions_are_asked_by_time(served: Any) -> None:
    client = served[0]
    windows = client.store("windows")
    assert windows.get("apple", 10_000) == {"partition": 0, "value": 1, "timestamp": 12_000}
    assert [(row["start"], row["value"]) for row in windows.fetch("apple", 0, 20_000)] == [(0, 1), (10_000, 1)]
    assert [(row["key"], row["start"]) for row in windows.fetch_all(10_000, 10_000)] == [
        ("apple", 10_000),
        ("banana", 10_000),
    ]
    assert list(windows.fetch_range("b", "c", 0, 20_000).keys) == ["banana"]
    sessions = client.store("sessions")
    assert [(row["start"], row["end"]) for row in sessions.fetch("apple")] == [(1_000, 1_000), (12_000, 12_000)]
    assert [row["start"] for row in sessions.find_sessions("apple", 5_000, 20_000)] == [12_000]
    assert sessions.get("apple", 1_000, 1_000)["value"] == 1
    versions = client.store("versions")
    assert versions.get_as_of("apple", 3_000) == {"partition": 0, "value": "1", "timestamp": 1_000}
    assert versions.get("apple")["value"] == "2"
    assert [(row["value"], row["valid_to"]) for row in versions.history("apple", 0, 9_000)] == [
        ("1", 5_000),
        ("2", None),
    ]


def test_the_application_says_what_it_has_and_where(served: Any) -> None:
    client = served[0]
    kinds = {store["name"]: (store["kind"], store["key"], store["partitions"]) for store in client.stores}
    assert kinds["windows"] == ("window", "text", 1)
    assert kinds["versions"] == ("versioned", "text", 1)
    (host,) = client.metadata["hosts"]
    assert host["stores"]["counts"] == [0]


def test_what_is_wrong_is_said(served: Any) -> None:
    client, tasks = served
    with pytest.raises(UserError, match="counts"):
        client.store("other").get("a")
    with pytest.raises(UserError, match="no 'fetch'"):
        client.store("counts").fetch("a")
    with pytest.raises(UserError, match="start"):
        client.store("windows").get("a")
    for task in tasks:
        task.ready = False
    with pytest.raises(UserError, match="503"):
        client.store("counts").get("apple")


def test_the_secret_may_be_read_from_its_file(served: Any) -> None:
    url = served[0].metadata["hosts"][0]["url"]
    with connect(url, f"{TOKEN}\n") as client:
        assert client.store("counts").get("apple")["value"] == 2
    with pytest.raises(UserError, match="no good"):
        connect(url, "two\nlines")


@pytest.mark.parametrize("url", ["127.0.0.1:7001", "http://127.0.0.1:99999999", "http://[::1", "http://a:b"])
def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(UserError, match="no address for queries"):
        connect(url, TOKEN)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0 hello\r\n", b"HTTP/1.0 200 OK\r\n\r\n<html>", b"HTTP/1.0 200 OK\r\n\r\n[1]"]
)
def test_something_else_that_answers_is_told_as_such(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=answer_once)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with connect(url, TOKEN) as client, pytest.raises(UserError, match="is no application"):
            _ = client.metadata
        thread.join()


def test_a_key_that_json_does_not_know_is_refused_in_words(served: Any) -> None:
    with pytest.raises(UserError, match="cannot be sent as a key"):
        served[0].store("counts").get(Order("a", 1))


def test_without_the_secret_nothing_is_said(served: Any) -> None:
    client, _ = served
    url = client.metadata["hosts"][0]["url"]
    with connect(url, "another-secret-of-a-test") as stranger, pytest.raises(UserError, match="401"):
        stranger.store("counts").get("apple")


def test_a_whole_application_answers_from_any_of_its_hosts() -> None:
    with fruit(partitions=4) as driver:
        for key in ("kiwi", "lemon", "mango"):
            driver.pipe("in", key, "x", 14_000)
        tasks = shown(driver)
        left, right = [t for t in tasks if t.partition < 2], [t for t in tasks if t.partition >= 2]
        known_left, known_right = Hosts(4), Hosts(4)
        with (
            QueryServer("fruit", lambda: left, token=TOKEN, directory=known_left).start() as one,
            QueryServer("fruit", lambda: right, token=TOKEN, directory=known_right).start() as two,
        ):
            known_left.known = [Host(two.url, partitions_here(right))]
            known_right.known = [Host(one.url, partitions_here(left))]
            for server in (one, two):
                with connect(server.url, TOKEN) as client:
                    counts = client.store("counts")
                    assert counts.get("apple")["value"] == 2
                    assert counts.get("banana")["value"] == 1
                    assert counts.get("cherry") is None
                    assert sorted(counts.all().keys) == ["apple", "apricot", "banana", "kiwi", "lemon", "mango"]
                    partitions = [row["partition"] for row in counts.all()]
                    assert partitions == sorted(partitions)
                    assert counts.count() == 6
                    assert 0 < len(counts.all(local=True)) < 6
                    assert len(client.metadata["hosts"]) == 2
            known_left.known = []
            with connect(one.url, TOKEN) as client, pytest.raises(UserError, match=r"partitions \[2, 3\]"):
                client.store("counts").all()


def test_the_lead_asks_for_a_key_where_its_partition_is() -> None:
    with fruit(partitions=4) as driver:
        tasks = shown(driver)
        owner = next(row["partition"] for row in _rows_of(tasks) if row["key"] == "apple")
        right = [task for task in tasks if task.partition == owner]
        plans, counts = [tasks[0].plan], {tasks[0].plan.number: 4}
        with QueryServer("fruit", lambda: right, token=TOKEN, directory=SlotDirectory(plans, counts)).start() as slot:
            number = tasks[0].plan.number
            dead = {"queries": "http://127.0.0.1:1", "tasks": [f"{number}_{p}" for p in range(4) if p != owner]}
            rows = [dead, {"queries": slot.url, "tasks": [f"{number}_{owner}"]}]
            directory = LeadDirectory(plans, counts, tasks[0].settings, lambda: rows)
            lead = QueryServer("fruit", lambda: (), token=TOKEN, directory=directory, known=directory.known)
            with lead.start(), connect(lead.url, TOKEN) as client:
                assert client.store("counts").get("apple")["value"] == 2  # the other slot is not asked
                with pytest.raises(UserError, match="does not answer"):
                    client.store("counts").all()
                rows[0]["queries"] = ""
                with pytest.raises(UserError, match="Nobody holds partitions"):
                    client.store("counts").all()
                with pytest.raises(UserError, match="no store"):
                    client.store("others").all()


def _lead_of(slot: QueryServer, tasks: list[Shown], count: int) -> QueryServer:
    """The door of a lead who has given all of these tasks to one slot."""
    plans = list({task.plan.number: task.plan for task in tasks}.values())
    row = {"queries": slot.url, "tasks": [f"{task.plan.number}_{task.partition}" for task in tasks]}
    directory = LeadDirectory(plans, {plan.number: count for plan in plans}, tasks[0].settings, lambda: [row])
    return QueryServer(
        "fruit", lambda: (), token=TOKEN, directory=directory, known=directory.known, names=directory.names
    )


def test_the_lead_says_that_there_are_more_rows_than_its_slots_have_sent() -> None:
    """Each slot cuts at the limit, and the lead saw no more than that: the rows seemed to be all."""
    with fruit() as driver:
        tasks = shown(driver)
        with (
            QueryServer("fruit", lambda: tasks, token=TOKEN).start() as slot,
            _lead_of(slot, tasks, 1).start() as lead,
            connect(lead.url, TOKEN) as client,
        ):
            counts = client.store("counts")
            assert [(len(rows), rows.truncated) for rows in (counts.all(limit=n) for n in (1, 2, 3, 4))] == [
                (1, True),
                (2, True),
                (3, False),
                (3, False),
            ]


def test_the_lead_tells_which_stores_there_are() -> None:
    """It told of none, though it answered for all of them."""
    with fruit() as driver:
        tasks = shown(driver)
        with (
            QueryServer("fruit", lambda: tasks, token=TOKEN).start() as slot,
            _lead_of(slot, tasks, 1).start() as lead,
            connect(lead.url, TOKEN) as client,
            connect(slot.url, TOKEN) as of_slot,
        ):
            assert client.stores == of_slot.stores
            assert len(client.stores) == 4
            with pytest.raises(UserError, match="these are there: counts, sessions, versions, windows"):
                client.store("others").all()


def test_rows_that_weigh_too_much_are_cut_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 rows of a megabyte each were put together in memory, beside the tasks of the slot."""
    monkeypatch.setattr(answers, "BYTES_MAX", 1_000)
    app = App("fat", key="text", value="json")
    app.table("in", store="fat")
    with app.test(partitions=2) as driver:
        for key in "abcdefgh":
            driver.pipe("in", key, {"text": ["x" * 390]}, 5)
        tasks = shown(driver)
        with (
            QueryServer("fat", lambda: tasks[::-1], token=TOKEN).start() as server,
            connect(server.url, TOKEN) as client,
        ):
            rows = client.store("fat").all()
            assert (len(rows), rows.truncated) == (3, True)
            assert [row["partition"] for row in rows] == [0, 0, 0]
            assert client.store("fat").get("h")["value"] == {"text": ["x" * 390]}


class Pictures:
    """A serde of records with bytes in them, as those of Avro and Protobuf may have."""

    name = "pictures"

    def serialize(self, value: Any) -> bytes:
        return bytes(value["bytes"])

    def deserialize(self, data: bytes) -> Any:
        return {"bytes": data}


def test_bytes_within_values_weigh_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counted as eight: ten thousand pictures of a megabyte were one answer."""
    monkeypatch.setattr(answers, "BYTES_MAX", 1_000)
    app = App("fat", key="text", value=Pictures())
    app.table("in", store="fat")
    with app.test() as driver:
        for key in "abcdefgh":
            driver.pipe("in", key, {"bytes": b"x" * 390}, 5)
        (task,) = shown(driver)
        found = answer([(task, task.plan.stores[0])], parse(StoreKind.KEY_VALUE, "all", {}, TEXT))
    assert (len(found.rows), found.truncated) == (3, True)


def test_a_slot_with_some_partitions_looks_first_where_the_key_is() -> None:
    """It counted the partitions that it has, and looked in another one first."""
    with fruit(4) as driver:
        tasks = [task for task in shown(driver) if any(store.name == "counts" for store in task.plan.stores)]
        keys = [f"key-{n}" for n in range(40)]
        for key in keys:
            driver.pipe("in", key, "x", 14_000)
        some = [task for task in tasks if task.partition in (0, 2)]
        plans, counts = [tasks[0].plan], {tasks[0].plan.number: 4}
        with (
            QueryServer("fruit", lambda: some, token=TOKEN, directory=SlotDirectory(plans, counts)).start() as slot,
            connect(slot.url, TOKEN) as client,
        ):
            found = [client.store("counts").get(key, local=True) for key in keys]
            missing = found.count(None)
            assert 0 < missing < len(keys)
            assert sum(task.asked for task in some) == len(keys) + missing


def test_a_partition_that_has_just_left_its_slot_leaves_no_hole_in_an_answer() -> None:
    """The lead's door knows of it a moment later: it told that there was nothing under the key, and fewer rows."""
    with fruit(4) as driver:
        tasks = [task for task in shown(driver) if any(store.name == "counts" for store in task.plan.stores)]
        left = next(row["partition"] for row in _rows_of(tasks) if row["key"] == "apple")
        there = [task for task in tasks if task.partition != left]
        plans, counts = [tasks[0].plan], {tasks[0].plan.number: 4}
        with QueryServer("fruit", lambda: there, token=TOKEN, directory=SlotDirectory(plans, counts)).start() as slot:
            known = {"queries": slot.url, "tasks": [f"{tasks[0].plan.number}_{p}" for p in range(4)]}
            directory = LeadDirectory(plans, counts, tasks[0].settings, lambda: [known])
            lead = QueryServer("fruit", lambda: (), token=TOKEN, directory=directory, known=directory.known)
            with lead.start(), connect(lead.url, TOKEN) as client:
                store = client.store("counts")
                for ask in (lambda: store.get("apple"), store.all, store.count):
                    with pytest.raises(UserError, match=rf"partitions \[{left}\]"):
                        ask()
                there[:] = tasks
                assert store.get("apple")["value"] == 2
                assert store.get("cherry") is None
                assert store.count() == 3


def test_a_key_is_looked_up_in_its_partition_and_in_others_only_if_it_is_not_there() -> None:
    with fruit(4) as driver:
        tasks = [task for task in shown(driver) if any(store.name == "counts" for store in task.plan.stores)]
        here = [(task, plan) for task in tasks if (plan := store_plan(task, "counts")) is not None]
        ask = parse(here[0][1].spec.kind, "get", {"key": "banana"}, TEXT)
        ((found,), _) = answer(here, ask)
        assert found["value"] == 1
        assert {task.partition: task.asked for task in tasks} == {n: int(n == found["partition"]) for n in range(4)}
        assert answer(here, parse(here[0][1].spec.kind, "get", {"key": "cherry"}, TEXT)).rows == []
        assert sum(task.asked for task in tasks) == 1 + 4
        elsewhere = [(Elsewhere(task._task, task._state), plan) for task, plan in here]
        assert answer(elsewhere, ask).rows == [{**found, "partition": (found["partition"] + 1) % 4}]


def _rows_of(tasks: list[Shown]) -> list[dict[str, Any]]:
    with QueryServer("fruit", lambda: tasks, token=TOKEN).start() as server, connect(server.url, TOKEN) as client:
        return list(client.store("counts").all())


def test_a_host_that_has_nothing_of_a_store_sends_on() -> None:
    with fruit() as driver:
        tasks = shown(driver)
        hosts = Hosts(1)
        with (
            QueryServer("fruit", lambda: tasks, token=TOKEN).start() as full,
            QueryServer("fruit", list, token=TOKEN, directory=hosts).start() as empty,
        ):
            hosts.known = [Host(full.url, partitions_here(tasks))]
            with connect(empty.url, TOKEN) as client:
                assert client.store("counts").get("apple")["value"] == 2
                assert client.store("counts").get("cherry") is None


def test_typed_keys_and_values_are_json() -> None:
    app = App("orders", key=Order, value="bytes")
    app.table("in", store="orders")
    with app.test() as driver:
        driver.pipe("in", Order("ann", 3), b"\xff", 5)
        tasks = shown(driver)
        with (
            QueryServer("orders", lambda: tasks, token=TOKEN).start() as server,
            connect(server.url, TOKEN) as client,
        ):
            store = client.store("orders")
            assert store.get({"customer": "ann", "amount": 3})["value"] == {"base64": "/w=="}
            assert list(store.all().keys) == [{"customer": "ann", "amount": 3}]
            assert store.get(b'{"customer":"ann","amount":3}')["timestamp"] == 5


@pytest.mark.parametrize(
    ("text", "serde", "means"),
    [("1", "text", "1"), ("1", "long", 1), ("1.5", "double", 1.5), ("1", "json", 1), ("a b", "json", "a b")],
)
def test_text_means_what_the_serde_says(text: str, serde: str, means: Any) -> None:
    assert from_text(text, resolve(serde)) == means


def test_json_tells_texts_and_numbers_apart() -> None:
    assert from_json('"1"', resolve("json")) == "1"
    assert from_json("1", resolve("json")) == 1
    assert from_json('{"customer": "a", "amount": 1}', resolve(Order)) == Order("a", 1)


@pytest.mark.parametrize(
    ("operation", "given", "wrong"),
    [
        ("get", {}, "key"),
        ("get", {"key": "x"}, "long"),
        ("get", {"key_base64": "!"}, "long"),
        ("get", {"key": "9223372036854775808"}, "out of its range"),
        ("get", {"key_json": '"x"'}, "the object is a str"),
        ("range", {"lower_json": "[1]"}, "the object is a list"),
        ("range", {"form": "a"}, "no parameter 'form'"),
        ("all", {"limt": "1"}, "it has limit, reverse"),
        ("get", {"key": "1", "start": "5"}, "no parameter 'start'"),
        ("all", {"reverse": "yes"}, "true or false"),
        ("all", {"limit": "0"}, "limit"),
        ("all", {"limit": "many"}, "whole number"),
        ("prefix", {"prefix": "1", "reverse": "true"}, "reverse"),
        ("put", {"key": "1"}, "put"),
    ],
)
def test_questions_that_make_no_sense(operation: str, given: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadStoreQuery, match=wrong):
        parse(StoreKind.KEY_VALUE, operation, given, resolve("long"))


def test_what_json_does_not_know_is_shown_all_the_same() -> None:
    assert plain(Windowed("a", 1, 2), resolve("text")) == {"key": "a", "start": 1, "end": 2}
    assert encode({"a": float("nan"), "b": [float("inf")]}) == b'{"a":"nan","b":["inf"]}'


def test_what_suppress_holds_back_is_no_store_for_queries() -> None:
    app = App("app", key="text", value="text")
    table = app.stream("in").group_by_key().count(store="counts")
    table.suppress(until_time_limit="10s", name="held").to_stream().to("out")
    app.add_store(key_value_store("lonely"))
    with app.test() as driver:
        assert partitions_here(shown(driver)) == {"counts": [0]}
        with pytest.raises(UserError, match="counts"):
            LocalStore("held-store", shown(driver))


def _on_disk(root: Path, name: str) -> None:
    state = LmdbState(root / name)
    state.claim(Owner(1, 0))
    state.commit({})
    state.close()


def test_state_on_disk_without_some_partitions_gives_no_answer_with_a_hole(tmp_path: Path) -> None:
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    app.table("prices", store="prices")
    plans = app.topology().sub_topologies()
    (counted,) = (plan.number for plan in plans if any(store.name == "counts" for store in plan.stores))
    (priced,) = (plan.number for plan in plans if any(store.name == "prices" for store in plan.stores))
    root = tmp_path / "fruit" / "cluster"
    _on_disk(root, f"{counted}_0")
    reader = StateReader(tmp_path, "fruit", plans, app.settings(), None)
    with (
        QueryServer("fruit", reader.tasks, token=TOKEN, directory=reader).start() as server,
        connect(server.url, TOKEN) as client,
    ):
        with pytest.raises(UserError, match="how many partitions"):
            client.store("counts").get("cherry")
        write_task_counts(root, {counted: 2, priced: 1})
        with pytest.raises(UserError, match=r"partitions \[1\]"):
            client.store("counts").get("cherry")
        with pytest.raises(UserError, match=r"Nobody holds prices"):
            client.store("prices").all()
        with pytest.raises(UserError, match="no store"):
            client.store("others").all()
        write_task_counts(root, {counted: 1, priced: 1})
        assert client.store("counts").get("cherry") is None
        assert client.store("counts").count() == 0
    reader.close()


class Brokers:
    """Changelogs of so many offsets."""

    def __init__(self, end: int) -> None:
        self._end = end

    def list_offsets(self, wanted: dict[Any, int], **_: Any) -> dict[Any, Any]:
        return {each: SimpleNamespace(offset=0 if at == EARLIEST else self._end) for each, at in wanted.items()}

    def describe_topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id=name.encode())

    def columns(self, *_: Any, **__: Any) -> Iterator[Any]:
        yield from ()


def test_half_a_state_that_is_being_restored_answers_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that came without its state told, while it was read from the changelog, that keys were not there."""
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    plans = app.topology().sub_topologies()
    brokers: Any = Brokers(4)
    clients = Clients(brokers, brokers, threading.Event())
    task = OpenTask(plans[0], 0, app.settings(), tmp_path, clients, {})
    told: list[Any] = []

    def both() -> list[Any]:
        """What this process says of the first key, and whether another would believe what it reads."""
        with task.state.snapshot() as written:
            marked = is_copied(written)
        try:
            return [LocalStore("counts", [task]).get("apple"), marked]
        except NotReady as problem:
            return ["restored" in problem.what, marked]

    def runs(_reader: Any, _partition: Any, begin: int, end: int, *_: Any) -> Iterator[ChangelogRows]:
        for offset, key in list(enumerate((b"apple", b"banana", b"cherry", b"date")))[begin:end]:
            told.append(both())
            if offset == left_at:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
            yield ChangelogRows([key], [(5).to_bytes(8)], [7], offset + 1)

    monkeypatch.setattr(open_task, "changelog_runs", runs)
    monkeypatch.setattr(open_task, "_SAVE_EVERY", 1)
    task.claim(Owner(1, 1))
    left_at = 2
    with pytest.raises(KafkaError):
        task.replay(task.ends("read_uncommitted"))
    task.drop()
    left_at = -1
    task.claim(Owner(1, 2))
    task.replay(task.ends("read_uncommitted"))
    assert told == [[True, True]] * 5
    task.save()
    task.start({}, 0)
    assert both() == [(5, 7), False]
    told.clear()
    brokers._end = 5
    task.drop()
    task.claim(Owner(1, 3))  # as after a commit that failed: what is there is whole
    task.replay(task.ends("read_uncommitted"))
    assert both() == [(5, 7), False]
    task.close()


def test_a_state_that_is_opened_without_its_rows_answers_nobody_before_its_changelog_is_found(tmp_path: Path) -> None:
    """While brokers were away, between the claim and the replay, keys seemed not to be there."""
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    plans = app.topology().sub_topologies()
    brokers: Any = Brokers(0)
    task = OpenTask(plans[0], 0, app.settings(), tmp_path, Clients(brokers, brokers, threading.Event()), {})
    task.claim(Owner(1, 1))
    with pytest.raises(NotReady, match="restored"):
        LocalStore("counts", [task]).get("apple")
    with task.state.snapshot() as written:
        assert is_copied(written)
    task.replay(task.ends("read_uncommitted"))
    task.save()
    task.start({}, 0)
    assert LocalStore("counts", [task]).get("apple") is None
    task.close()
    task.claim(Owner(1, 2))  # all is there: other processes may go on to read it
    with task.state.snapshot() as written:
        assert not is_copied(written)
    task.close()


def test_a_standbys_copy_answers_only_those_who_allow_stale_answers(tmp_path: Path) -> None:
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    plans = app.topology().sub_topologies()
    root = tmp_path / "fruit" / "cluster"
    name = f"{plans[0].number}_0"
    write_task_counts(root, {plans[0].number: 1})
    copy = LmdbState(root / name)
    copy.claim(Owner(1, 0))
    mark_copy(copy, is_copy=True)
    copy.commit({})
    copy.close()

    def count(*, stale: bool) -> int:
        reader = StateReader(tmp_path, "fruit", plans, app.settings(), None, stale=stale)
        try:
            with (
                QueryServer("fruit", reader.tasks, token=TOKEN, directory=reader).start() as server,
                connect(server.url, TOKEN) as client,
            ):
                return client.store("counts").count()
        finally:
            reader.close()

    with pytest.raises(UserError, match="is a standby's copy"):
        count(stale=False)
    assert count(stale=True) == 0
    brokers: Any = Brokers(0)
    settings, clients = app.settings(), Clients(brokers, brokers, threading.Event())
    task = OpenTask(plans[0], 0, settings, root, clients, {})
    task.claim(Owner(1, 1))  # the task has come here
    task.replay(task.ends("read_uncommitted"))
    task.save()
    task.close()
    assert count(stale=False) == 0


WRITER = """
import sys
from pathlib import Path
from headwater.streams.stores.build import build_store
from headwater.streams.stores.combined_state import open_state
from headwater.streams.stores.formats import stamped
from headwater.streams.stores.spec import StoreSpec, StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner
spec, changelog = StoreSpec("counts"), ChangelogPartition("c", 0)
state = open_state(Path(sys.argv[1]), [spec], {changelog: spec}, StoreType.ROCKSDB)
state.claim(Owner(1, 0))
state.commit({})
print("open", flush=True)
for line in sys.stdin:
    word, number = line.split()
    build_store(spec, state).put(word.encode(), stamped(int(number).to_bytes(8), 5))
    state.commit({changelog: 1})
    print("written", flush=True)
state.close()
"""


class Writer:
    """Another process, which has the state of a task open."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", WRITER, str(directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect("open")

    def put(self, word: str, number: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        self._expect("written")

    def _expect(self, told: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{told}\n"


def test_rows_in_rocksdb_are_read_while_another_process_writes_them(tmp_path: Path) -> None:
    app = App("fruit", key="text", value="text", config={"default.dsl.store": "rocksDB"})
    app.stream("in").group_by_key().count(store="counts")
    app.table("prices", store=Materialized("prices", store_type="in_memory"))
    plans = app.topology().sub_topologies()
    plan = next(each for each in plans if any(store.name == "counts" for store in each.stores))
    root = tmp_path / "fruit" / "cluster"
    write_task_counts(root, {each.number: 1 for each in plans})
    reader = StateReader(tmp_path, "fruit", plans, app.settings(), None)
    writer = Writer(root / f"{plan.number}_0")
    with (
        writer.process,
        QueryServer("fruit", reader.tasks, token=TOKEN, directory=reader).start() as server,
        connect(server.url, TOKEN) as client,
    ):
        counts = client.store("counts")
        assert counts.get("cherry") is None  # nobody has made the map yet
        writer.put("cherry", 1)
        assert counts.get("cherry")["value"] == 1
        writer.put("cherry", 2)
        writer.put("apple", 1)
        assert [(row["key"], row["value"]) for row in counts.all()] == [("apple", 1), ("cherry", 2)]
        writer.process.communicate()
        assert counts.get("apple")["value"] == 1
        with pytest.raises(UserError, match="no store 'prices'"):  # it is in memory
            client.store("prices").all()
    reader.close()


def test_a_local_store_whose_state_is_closed_while_it_is_asked_says_so(tmp_path: Path) -> None:
    """Of a run that was just ending, LMDB's own error was told."""
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    brokers: Any = Brokers(0)
    clients = Clients(brokers, brokers, threading.Event())

    class ClosedBetween(OpenTask):
        def snapshot(self) -> Any:
            found = super().snapshot()
            self.close()
            return found

    for runs, expected in ((True, "has been closed"), (False, "has ended here")):
        task = ClosedBetween(app.topology().sub_topologies()[0], 0, app.settings(), tmp_path, clients, {})
        task.claim(Owner(1, 1))
        task.replay(task.ends("read_uncommitted"))
        task.save()
        task.start({}, 0)
        with pytest.raises(UserError, match=expected):
            LocalStore("counts", [task], lambda runs=runs: runs).get("apple")  # type: ignore[misc]


def test_a_local_store_says_what_it_has_not_and_that_its_application_has_ended(tmp_path: Path) -> None:
    app = App("fruit", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts")
    brokers: Any = Brokers(0)
    clients = Clients(brokers, brokers, threading.Event())
    task = OpenTask(app.topology().sub_topologies()[0], 0, app.settings(), tmp_path, clients, {})
    for runs, expected in ((True, NotReady), (False, UserError)):
        with pytest.raises(expected, match="not open" if runs else "has ended here"):
            LocalStore("counts", [task], lambda runs=runs: runs).get("apple")  # type: ignore[misc]
    task.claim(Owner(1, 1))
    task.replay(task.ends("read_uncommitted"))
    task.save()
    task.start({}, 0)
    with pytest.raises(UserError, match=r"counts has no fetch\. it is a key-value store"):
        LocalStore("counts", [task]).fetch("apple", 0, 10)
    task.close()
