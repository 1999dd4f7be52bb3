"""A login that queries are to have is never left out silently."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.slot.hosted_application import HostedApplication
from headwater.streams.slot.settings import RunSettings

DOOR = {"authentication.method": "BASIC"}


@pytest.mark.parametrize(("queries", "door", "is_refused"), [(0, DOOR, True), (0, None, False), (None, DOOR, False)])
def test_a_door_of_several_slots_has_no_login(queries: int | None, door: Any, is_refused: bool) -> None:
    settings = RunSettings("b:1", Path("s"), queries=queries, queries_door=door)
    if not is_refused:
        settings.refuse_door_of_slots()
        return
    program = cast("Any", SimpleNamespace(settings=settings, name="app"))
    with pytest.raises(UserError, match="queries_door"):
        SlotRuntime.run(cast("Any", None), program, "")
    with pytest.raises(UserError, match="queries_door"):
        HostedApplication._serve_queries(cast("Any", None), program)
