"""The queries that write frames to an application, with queries that are not Spark's: what fails is told, and all are
stopped.
"""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import frames
from headwater.streams.frames import Feeds

LIMIT_S = 120


class _Query:
    def __init__(self, fails: Exception | None = None, stop_fails: Exception | None = None) -> None:
        self._fails, self._stop_fails = fails, stop_fails
        self.stopped = threading.Event()

    def awaitTermination(self, timeout: float) -> bool:
        if self._fails is not None:
            raise self._fails
        return self.stopped.wait(timeout)

    def stop(self) -> None:
        self.stopped.set()
        if self._stop_fails is not None:
            raise self._stop_fails


class _Run:
    def __init__(self) -> None:
        self.running = True
        self.asked = threading.Event()
        self.error: UserError | None = None

    def ask_to_stop(self, error: UserError | None = None) -> None:
        self.error, self.running = error, False
        self.asked.set()


@pytest.mark.parametrize("error", [ConnectionError("the gateway is gone"), ValueError("no such thing")])
def test_whatever_ends_a_query_ends_the_application(error: Exception) -> None:
    run, well, ill = _Run(), _Query(), _Query(error)
    feeds = Feeds(run, {"well": well, "ill": ill})  # type: ignore[dict-item]
    assert run.asked.wait(LIMIT_S)
    feeds.close()
    assert run.error is not None
    assert "ill could not be written" in run.error.what
    assert str(error) in run.error.why
    assert well.stopped.is_set()


def test_each_query_is_stopped_whatever_the_others_do() -> None:
    first, second = _Query(stop_fails=ConnectionError("the gateway is gone")), _Query()
    Feeds(_Run(), {"first": first, "second": second}).close()  # type: ignore[dict-item]
    assert first.stopped.is_set()
    assert second.stopped.is_set()


class _Admin:
    topic_id = bytes(15) + b"\x01"

    def __init__(self, settings: Any) -> None:
        pass

    def __enter__(self) -> "_Admin":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(topic_id=self.topic_id) for name in names}

    def describe_cluster(self) -> Any:
        return SimpleNamespace(cluster_id="cluster-1")


@pytest.mark.parametrize("given", ["hdfs:///checkpoints/prices", "hdfs:///checkpoints/prices/", None])
def test_a_topic_made_anew_has_a_checkpoint_of_its_own(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    """Else a frame that is not a stream would count as written already, and the topic stay empty."""
    monkeypatch.setattr(frames, "Admin", _Admin)
    app, session = SimpleNamespace(name="app"), SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
    feed = SimpleNamespace(name="prices", topic="app-prices-df", checkpoint=given)
    settings = SimpleNamespace(for_admins={}, state_dir="state")
    found = []
    for number in (1, 2):
        monkeypatch.setattr(_Admin, "topic_id", bytes(15) + bytes([number]))
        found.append(frames._checkpoint(app, feed, settings, session))  # type: ignore[arg-type]
    parents = [path.rpartition("/")[0] for path in found]
    assert len(set(found)) == 2
    assert parents[0] == parents[1]
    assert parents[0] == "hdfs:///checkpoints/prices" if given else parents[0].endswith("app/cluster-1/frames/prices")
