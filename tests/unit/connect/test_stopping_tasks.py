"""A worker stops every task that it began to start, whether that failed or not:
what is said then is said of `start`.
"""

import inspect

import pytest

from headwater.connect.api import SinkTask, SourceTask
from headwater.connect.plugins import Catalog, Kind

CONNECTORS = [each.cls for each in Catalog(installed=False).plugins(Kind.SOURCE, Kind.SINK)]


@pytest.mark.parametrize("connector", CONNECTORS, ids=[each.__name__ for each in CONNECTORS])
def test_a_task_whose_start_failed_at_once_is_stopped_without_a_word(connector: type) -> None:
    task = connector.task_class()
    assert isinstance(task, SourceTask | SinkTask)
    assert not inspect.isawaitable(task.stop())
    if isinstance(task, SourceTask):
        assert not inspect.isawaitable(task.close())
