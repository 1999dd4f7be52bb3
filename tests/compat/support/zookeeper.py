"""What every Coordination must do, real or simulated: checks that run on a stage, and a client that waits for its
answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest

from headwater.base.coordination import (
    Check,
    ConnectionLost,
    Coordination,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    SessionState,
    SetData,
    Write,
    Written,
    WrongVersion,
)

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


class Caller:
    """A client that has been started; each call waits for its answer."""

    def __init__(self, coordination: Coordination, until: Callable[[Callable[[], bool]], None]) -> None:
        self.coordination = coordination
        self.states: list[SessionState] = []
        self._until = until
        coordination.on_state = self.states.append
        coordination.start()

    def connected(self) -> "Caller":
        self._until(lambda: self.states[-1:] == [CONNECTED])
        return self

    def get(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        node: Node | None = self._wait(lambda done: self.coordination.get(path, done, watch))
        return node

    def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
        names: list[str] | None = self._wait(lambda done: self.coordination.children(path, done, watch))
        return names

    def write(self, *writes: Write) -> list[Written]:
        written: list[Written] = self._wait(lambda done: self.coordination.write(writes, done))
        return written

    def refused(self, *writes: Write) -> CoordinationError:
        with pytest.raises(CoordinationError) as refusal:
            self.write(*writes)
        return refusal.value

    def _wait(self, ask: Callable[[Callable[[Any, CoordinationError | None], None]], None]) -> Any:
        answers: list[tuple[Any, CoordinationError | None]] = []
        ask(lambda result, problem: answers.append((result, problem)))
        assert not answers, "answered inside the call"
        self._until(lambda: bool(answers))
        ((result, problem),) = answers
        if problem is not None:
            raise problem
        return result


class Stage(Protocol):
    def client(self) -> Caller:
        """A new client with a session."""
        ...

    def until(self, condition: Callable[[], bool]) -> None:
        """Lets the world go on until it is so; fails if that takes too long."""
        ...

    def disconnect(self, client: Caller) -> None:
        """Resets its connection; its session stays."""
        ...

    def expire(self, client: Caller) -> None: ...


def until_read(stage: Stage, read: Callable[[], object], wanted: object) -> None:
    """Reads may be stale for a while, but not for ever."""
    stage.until(lambda: read() == wanted)


def check_a_node_is_made_read_changed_and_deleted(stage: Stage) -> None:
    one = stage.client()
    assert one.get("/a") is None
    assert one.write(Create("/a", b"first")) == ["/a"]
    made = one.get("/a")
    assert made is not None
    assert (made.data, made.version) == (b"first", 0)
    assert one.write(SetData("/a", b"second")) == [1]
    assert one.get("/a") == Node(b"second", 1, made.created)
    assert one.write(Delete("/a")) == [None]
    assert one.get("/a") is None


def check_a_node_made_again_has_a_later_transaction(stage: Stage) -> None:
    one = stage.client()
    created = []
    for _ in range(3):
        one.write(Create("/a"))
        node = one.get("/a")
        assert node is not None
        created.append(node.created)
        one.write(Delete("/a"))
    assert created == sorted(set(created))


def check_refusals_name_the_path(stage: Stage) -> None:
    one = stage.client()
    one.write(Create("/a"), Create("/a/b"))
    cases: list[tuple[Write, type[CoordinationError], str]] = [
        (Create("/a"), NodeExists, "/a"),
        (Create("/missing/b"), NodeMissing, "/missing/b"),
        (SetData("/missing", b""), NodeMissing, "/missing"),
        (Delete("/missing"), NodeMissing, "/missing"),
        (Check("/missing", 0), NodeMissing, "/missing"),
        (SetData("/a", b"", 7), WrongVersion, "/a"),
        (Delete("/a/b", 7), WrongVersion, "/a/b"),
        (Check("/a", 7), WrongVersion, "/a"),
        (Delete("/a"), NodeHasChildren, "/a"),
    ]
    for write, kind, path in cases:
        alone = one.refused(write)
        assert (type(alone), alone.path) == (kind, path), write
        among_others = one.refused(Create("/first"), write, Create("/last"))
        assert (type(among_others), among_others.path) == (kind, path), write
        assert one.get("/first") is None


def check_writes_together_happen_all_or_not_at_all(stage: Stage) -> None:
    one = stage.client()
    one.write(Create("/guard"), Create("/state", b"old"))
    assert type(one.refused(SetData("/state", b"new"), Create("/entry"), Check("/guard", 1))) is WrongVersion
    state = one.get("/state")
    assert state is not None
    assert (state.data, state.version) == (b"old", 0)
    assert one.get("/entry") is None
    written = one.write(Check("/guard", 0), SetData("/state", b"new", 0), Create("/entry"), Delete("/guard"))
    assert written == [None, 1, "/entry", None]


def check_writes_together_see_each_other(stage: Stage) -> None:
    one = stage.client()
    writes = [Create("/a"), Create("/a/b"), SetData("/a", b"x", 0), SetData("/a", b"y", 1), Check("/a", 2)]
    assert one.write(*writes, Delete("/a/b"), Delete("/a", 2)) == ["/a", "/a/b", 1, 2, None, None, None]
    assert one.get("/a") is None


def check_sequential_numbers_count_on_after_deletes(stage: Stage) -> None:
    one = stage.client()
    one.write(Create("/log"))
    made = [one.write(Create("/log/", sequential=True))[0] for _ in range(2)]
    assert made == ["/log/0000000000", "/log/0000000001"]
    one.write(Delete("/log/0000000000"), Delete("/log/0000000001"))
    assert one.write(Create("/log/", sequential=True), Create("/log/n-", sequential=True)) == [
        "/log/0000000002",
        "/log/n-0000000003",
    ]
    one.refused(Create("/log/", sequential=True), Check("/log", 7))
    assert one.write(Create("/log/", sequential=True)) == ["/log/0000000004"]
    assert one.children("/log") == ["0000000002", "0000000004", "n-0000000003"]


def check_children_are_names(stage: Stage) -> None:
    one = stage.client()
    assert one.children("/a") is None
    one.write(Create("/a"), Create("/a/c"), Create("/a/b"), Create("/a/b/deep"))
    assert one.children("/a") == ["b", "c"]
    assert one.children("/a/c") == []


def check_ephemeral_nodes_go_with_their_session(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    one.write(Create("/mine", b"x", ephemeral=True), Create("/stays"))
    until_read(stage, lambda: two.get("/mine") is not None, True)
    one.coordination.close()
    until_read(stage, lambda: two.get("/mine"), None)
    assert two.get("/stays") is not None


def check_an_ephemeral_node_has_no_children(stage: Stage) -> None:
    one = stage.client()
    one.write(Create("/mine", ephemeral=True))
    assert one.refused(Create("/mine/child")).path == "/mine/child"


def check_a_watch_is_told_once(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    two.write(Create("/a"))
    until_read(stage, lambda: one.get("/a") is not None, True)
    told: list[str] = []
    one.get("/a", lambda: told.append("data"))
    one.children("/a", lambda: told.append("children"))
    two.write(SetData("/a", b"1"))
    stage.until(lambda: told == ["data"])
    two.write(SetData("/a", b"2"), Create("/a/b"))
    stage.until(lambda: told == ["data", "children"])
    two.write(SetData("/a", b"3"), Create("/a/c"))
    until_read(stage, lambda: one.children("/a"), ["b", "c"])
    assert told == ["data", "children"]


def check_a_watch_waits_for_a_node_to_be_made_and_to_go(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    told: list[str] = []
    assert one.get("/a", lambda: told.append("made")) is None
    two.write(Create("/a"))
    stage.until(lambda: told == ["made"])
    one.get("/a", lambda: told.append("deleted"))
    one.children("/a", lambda: told.append("children"))
    two.write(Delete("/a"))
    stage.until(lambda: sorted(told) == ["children", "deleted", "made"])


def check_who_sees_a_change_has_been_told_of_it(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    two.write(Create("/a"), Create("/b"))
    until_read(stage, lambda: one.get("/b") is not None, True)
    for version in range(1, 30):
        told: list[bool] = []
        one.get("/a", lambda told=told: told.append(True))  # type: ignore[misc]
        two.write(SetData("/a", b""), SetData("/b", b""))

        while (node := one.get("/b")) is not None and node.version < version:
            assert node.version == version - 1
        assert node is not None
        assert told


def check_answers_come_in_the_order_of_the_calls(stage: Stage) -> None:
    one = stage.client()
    one.write(Create("/a"))
    seen: list[tuple[str, object]] = []

    def note(kind: str) -> Callable[[Any, CoordinationError | None], None]:
        return lambda result, problem: seen.append((kind, result.version if isinstance(result, Node) else result))

    wanted: list[tuple[str, object]] = []
    for version in range(1, 20):
        one.coordination.write([SetData("/a", b"x")], note("write"))
        one.coordination.get("/a", note("get"), lambda: None)
        one.coordination.children("/a", note("children"))
        wanted += [("write", [version]), ("get", version), ("children", [])]
    stage.until(lambda: len(seen) == len(wanted))
    assert seen == wanted


def check_a_disconnected_client_comes_back_with_its_session(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    one.write(Create("/mine", ephemeral=True), Create("/kept"), Create("/changed"))
    session_id = one.coordination.session_id
    assert session_id != 0
    told: list[str] = []
    one.get("/kept", lambda: told.append("kept"))
    one.get("/changed", lambda: told.append("changed"))
    one.get("/made", lambda: told.append("made"))
    one.children("/kept", lambda: told.append("children"))
    stage.disconnect(one)
    stage.until(lambda: SUSPENDED in one.states)
    two.write(SetData("/changed", b"x"), Create("/made"))
    stage.until(lambda: one.states == [CONNECTED, SUSPENDED, CONNECTED])
    assert one.coordination.session_id == session_id
    stage.until(lambda: sorted(told) == ["changed", "made"])
    two.write(SetData("/kept", b"x"), Create("/kept/child"))
    stage.until(lambda: sorted(told) == ["changed", "children", "kept", "made"])
    assert one.get("/mine") is not None


def check_what_is_asked_while_suspended_fails(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    stage.disconnect(one)
    problems: list[CoordinationError | None] = []

    def on_state(state: SessionState) -> None:
        one.states.append(state)
        if state is SUSPENDED:
            one.coordination.write([Create("/never")], lambda _written, problem: problems.append(problem))
            one.coordination.get("/", lambda _node, problem: problems.append(problem))

    one.coordination.on_state = on_state
    stage.until(lambda: len(problems) == 2)
    assert [type(problem) for problem in problems] == [ConnectionLost, ConnectionLost]
    one.connected()
    two.write(Create("/later"))
    until_read(stage, lambda: one.get("/later") is not None, True)
    assert one.get("/never") is None


def check_an_expired_session_is_lost_and_a_new_one_follows(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    one.write(Create("/mine", ephemeral=True), Create("/a"))
    old_session_id = one.coordination.session_id
    told: list[str] = []
    one.get("/a", lambda: told.append("a"))
    stage.expire(one)
    stage.until(lambda: LOST in one.states)
    one.connected()
    assert one.states[-2:] == [LOST, CONNECTED]
    assert one.coordination.session_id not in (0, old_session_id)
    until_read(stage, lambda: one.get("/mine"), None)
    one.write(Create("/mine", ephemeral=True), SetData("/a", b"x"))
    until_read(stage, lambda: two.get("/mine") is not None, True)
    assert not told, "a watch of a lost session is void"


def check_nothing_is_called_after_close(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    one.write(Create("/a"))
    told: list[str] = []
    one.get("/a", lambda: told.append("watch"))
    one.coordination.write([Create("/last", ephemeral=True)], lambda _written, _problem: told.append("write"))
    one.coordination.close()
    one.coordination.close()
    assert one.coordination.session_id == 0
    until_read(stage, lambda: two.get("/a") is not None, True)
    two.write(Create("/b"), SetData("/a", b"x"))
    until_read(stage, lambda: two.get("/last"), None)
    assert not told
    assert one.states == [CONNECTED]


CHECKS: Sequence[Callable[[Stage], None]] = [
    function for name, function in sorted(globals().items()) if name.startswith("check_")
]
