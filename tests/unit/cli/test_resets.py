"""Where offsets are set to: what each way to say it means for a partition, and plans in CSV."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.cli.commands import group_reset
from headwater.cli.kafka import consumer_groups_reset, streams_application_reset
from headwater.cli.kafka.options import Options
from headwater.cli.resets import (
    CannotShift,
    Current,
    Earliest,
    Known,
    Latest,
    Planned,
    ResetTo,
    ShiftBy,
    ToOffset,
    ToTime,
    csv_line,
    decide,
    read_plan,
    read_plan_file,
)

P = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("target", "known", "offset", "note"),
    [
        (Earliest(), Known(2, 9), 2, ""),
        (Latest(), Known(2, 9), 9, ""),
        (Current(), Known(2, 9, committed=5), 5, ""),
        (Current(), Known(2, 9), 9, ""),
        (ToOffset(4), Known(2, 9), 4, ""),
        (ToOffset(2), Known(2, 9), 2, ""),
        (ToOffset(9), Known(2, 9), 9, ""),
        (ToOffset(1), Known(2, 9), 2, "lower than earliest"),
        (ToOffset(10), Known(2, 9), 9, "higher than latest"),
        (ShiftBy(3), Known(2, 9, committed=5), 8, ""),
        (ShiftBy(-3), Known(2, 9, committed=5), 2, ""),
        (ShiftBy(-4), Known(2, 9, committed=5), 2, "lower than earliest"),
        (ShiftBy(5), Known(2, 9, committed=5), 9, "higher than latest"),
        (ToTime(123), Known(2, 9, at_time=6), 6, ""),
        (ToTime(123), Known(2, 9, at_time=-1), 9, "Falling back to latest"),
        (Planned({P: 7}), Known(2, 9), 7, ""),
        (Planned({P: 70}), Known(2, 9), 9, "higher than latest"),
    ],
)
def test_one_partition(target: ResetTo, known: Known, offset: int, note: str) -> None:
    plan = decide(target, {P: known})
    assert plan.offsets == {P: offset}
    assert len(plan.notes) == bool(note)
    assert note in "".join(plan.notes)


def test_current_stays_even_where_it_is_out_of_range() -> None:
    assert decide(Current(), {P: Known(5, 9, committed=1)}).offsets == {P: 1}


def test_what_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(CannotShift, match="partition t-0 since there is no current committed offset"):
        decide(ShiftBy(1), {P: Known(0, 9)})


def test_plans_of_one_group_and_of_several() -> None:
    assert read_plan('t,0,5\n\n"t",1,6\n', ["g"]) == {"g": {P: 5, TopicPartition("t", 1): 6}}
    assert read_plan("g,t,0,5\nh,t,0,6\n", ["g", "h"]) == {"g": {P: 5}, "h": {P: 6}}
    assert read_plan("g,t,0,5\n", ["g"]) == {"g": {P: 5}}


def test_a_plan_that_is_no_text(tmp_path: Path) -> None:
    """A file of another encoding was a traceback."""
    path = tmp_path / "plan.csv"
    path.write_bytes("g,größe,0,5\n".encode("latin-1"))
    targets: list[Callable[[], object]] = [
        lambda: consumer_groups_reset._target("g", ["g"], Options({"from-file": [str(path)]})),
        lambda: streams_application_reset._target(Options({"from-file": [str(path)]}), "g"),
        lambda: group_reset._target("g", None, None, path),
    ]
    for target in targets:
        with pytest.raises(UserError, match=rf"Unable to read file {path}\. it is no text in UTF-8"):
            target()
    with pytest.raises(UserError, match=r"Unable to read file .*/missing\. No such file"):
        read_plan_file(str(tmp_path / "missing"), ["g"])
    path.write_text("g,t,0,5\n")
    assert streams_application_reset._target(Options({"from-file": [str(path)]}), "g") == Planned({P: 5})


@pytest.mark.parametrize("text", ["t,0", "t,x,5", "t,0,5"])
def test_lines_that_are_no_plan(text: str) -> None:
    with pytest.raises(UserError, match="line 1"):
        read_plan(text, ["g", "h"])


def test_what_is_exported_is_read_again() -> None:
    lines = csv_line("a,b", "t", 0, 5) + csv_line("g", "t", 1, 6)
    assert read_plan(lines, ["a,b", "g"]) == {"a,b": {P: 5}, "g": {TopicPartition("t", 1): 6}}
