"""The slots' runtime without slots: what stays of applications."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App
from headwater.streams.lead import runtime as runtime_module
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.slot.program import Program
from headwater.streams.slot.settings import RunSettings
from headwater.streams.topics.plan import TopicPlan


def test_an_application_that_was_stopped_leaves_no_door_for_queries() -> None:
    """Its port stayed in use, and answered nobody, until the runtime ended."""
    runtime, stopped = SlotRuntime(1), []
    try:
        application: Any = SimpleNamespace(name="app")
        runtime._applications["app"] = application
        door: Any = SimpleNamespace(stop=lambda: stopped.append("app"))
        runtime._queries["app"] = door
        runtime.forget(application)
        assert (stopped, runtime.queries("app"), runtime.applications) == (["app"], None, [])
    finally:
        runtime.close_port()


def test_an_application_whose_port_for_queries_is_taken_leaves_nothing(tmp_path: Path) -> None:
    """Its status said for ever that it was starting."""
    app = App("app", key="text", value="text")
    app.stream("in").to("out")
    topics = TopicPlan(tasks={0: 2}, sources={"in": 2})
    runtime = SlotRuntime(1)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            settings = RunSettings("localhost:1", tmp_path, queries=port, queries_token="0123456789abcdef")
            program = Program("app", app.topology().sub_topologies(), topics, app.settings(), settings, frozenset())
            with pytest.raises(UserError, match=str(port)):
                runtime.run(program, "pickled")
        assert (runtime.applications, runtime._published) == ([], {})
    finally:
        runtime.close_port()


def test_an_application_that_no_frame_holds_is_refused_before_slots_are_sent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every slot hung up on it, again and again, until all applications of the runtime had failed."""
    monkeypatch.setattr(runtime_module, "_PROGRAM_MAX_BYTES", 2 << 20)
    app = App("app", key="text", value="text")
    app.stream("in").to("out")
    topics = TopicPlan(tasks={0: 2}, sources={"in": 2})
    settings = RunSettings("localhost:1", tmp_path)
    program = Program("app", app.topology().sub_topologies(), topics, app.settings(), settings, frozenset())
    runtime = SlotRuntime(1)
    try:
        with pytest.raises(UserError, match=r"app is too large to be sent to slots.* 3 MB, and 2 MB are the most"):
            runtime.run(program, "x" * (4 << 20))
        assert runtime.applications == []
    finally:
        runtime.close_port()
