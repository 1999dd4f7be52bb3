"""The slots' runtime without slots: what stays of applications."""

from types import SimpleNamespace
from typing import Any

from headwater.streams.lead.runtime import SlotRuntime


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
