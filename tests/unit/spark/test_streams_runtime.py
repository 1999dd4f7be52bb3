"""A runtime of Streams on Spark that ends while an application is on its way into it. No Spark is started."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, on_spark
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.on_spark import Runtime
from headwater.streams.slot.program import Program
from headwater.streams.topics.plan import TopicPlan


def test_an_application_that_comes_when_the_runtime_ends_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It waited for slots for ever, as the member of its group that has all partitions."""
    stopping = threading.Event()
    runtime: Any = object.__new__(Runtime)
    runtime._slots, runtime._supply = SlotRuntime(1), SimpleNamespace(stopping=stopping)
    app = App("app", brokers="127.0.0.1:1", key="text", value="text")
    app.stream("in").to("out")

    def prepare(_app: App, settings: Any) -> Program:
        stopping.set()
        runtime._slots.close()
        topics = TopicPlan(tasks={0: 2}, sources={"in": 2})
        return Program("app", app.topology().sub_topologies(), topics, app.settings(), settings, frozenset())

    monkeypatch.setattr(on_spark, "prepare", prepare)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            runtime.run(app, state_dir=tmp_path)
        except UserError as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    try:
        assert [str(each).split(".")[0] for each in failures] == ["The runtime has been stopped"]
    finally:
        runtime._slots.close_port()
