"""The lag in the head of `headwater group describe`: the sum of what is known, and nothing where nothing is."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.cli.commands.group import _document, _text
from headwater.cli.group_offsets import OffsetRow


def _row(partition: int, committed: int | None) -> OffsetRow:
    return OffsetRow("t", partition, None, committed, 10, None, None, None)


@pytest.mark.parametrize(
    ("committed", "lag", "shown"), [([None], None, "-"), ([None, 4], 6, "6"), ([10], 0, "0"), ([], 0, "0")]
)
def test_lag_of_a_group(committed: list[int | None], lag: int | None, shown: str) -> None:
    place = SimpleNamespace(id=1, host="h", port=1)
    group = SimpleNamespace(
        group_id="g", type="Classic", state="Empty", assignor="", coordinator=place, epoch=1, members=[]
    )
    document = _document(cast("Any", group), [_row(number, each) for number, each in enumerate(committed)])
    assert document["lag"] == lag
    assert next(line.split() for line in _text(document, False).splitlines() if line.startswith("lag")) == [
        "lag",
        shown,
    ]
