"""The topics of the exactly-once sink are there before it writes; a broker that is away just then is waited for."""

from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from headwater.client.errors import BootstrapFailed
from headwater.spark import admin, data_source
from headwater.spark.writer import decision_topic
from headwater.spark.writer.options import SinkOptions


class FakeAdmin:
    session = SimpleNamespace(deadline=lambda: 0, pause=lambda attempt, deadline: True)

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def run(self, what: Any) -> Any:
        return what(self.session)


def test_a_broker_that_is_away_when_a_commit_begins_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit begins in a fresh process, which asks for the topics first: the query failed at once."""
    answers: list[Exception | None] = [BootstrapFailed([]), BootstrapFailed([]), None]

    def ensure(_: object) -> None:
        if (problem := answers.pop(0)) is not None:
            raise problem

    monkeypatch.setattr(admin, "open_admin", lambda *_: FakeAdmin())
    monkeypatch.setattr(decision_topic, "ensure_topics", ensure)
    monkeypatch.setattr(data_source, "_ensured", set())
    options = SinkOptions("h:1", "out", "exactly-once", "headwater")
    data_source.ensure_sink_topics(options)
    assert answers == []
    data_source.ensure_sink_topics(options)  # and is not asked again
