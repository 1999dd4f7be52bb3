"""How many cores a session has, while its executors still register."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.spark.slots import slot_supply


class Context:
    """Spark says two until executors have registered."""

    def __init__(self, master: str, *cores: int) -> None:
        self.master, self._cores = master, list(cores)

    @property
    def defaultParallelism(self) -> int:
        return self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]


def session(master: str, *cores: int) -> Any:
    return SimpleNamespace(sparkContext=Context(master, *cores))


def test_executors_that_the_wanted_slots_need_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(slot_supply.time, "sleep", pauses.append)
    assert slot_supply.cores_for(2, session("spark://host:7077", 2, 2, 4)) == 4
    assert len(pauses) == 2
    assert slot_supply.cores_for(None, session("spark://host:7077", 2, 4)) == 2, "as many as there are: more may come"
    assert slot_supply.cores_for(3, session("local[2]", 2)) == 2, "there are never more"
    assert slot_supply.cores_for(3, session("spark://host:7077", 2), patience_s=0.0) == 2
    assert len(pauses) == 2
