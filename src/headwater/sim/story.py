"""What happened to one partition or group of a simulated world, for a person who wants to know why an invariant broke.

A failing world is run once more with a `Story`: it takes down what the world notes, what clients were told
(`history.py`, `groups.py`, `transactions.py`) and what the brokers write into their logs, with the node that wrote it
and the simulated time. `of` picks the faults and lives of the nodes, and all that concerns the subjects that the
violation names.
"""

import logging
import re
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headwater.sim.stage import Stage

LINES_MAX: Final = 400
_LIVES: Final = ("fault:", "node ", "no more faults", "ZooKeeper is", "and connections are refused")
_WORD: Final = re.compile(r"[\w.-]*\w")
_PARTITION: Final = re.compile(r"[\w.-]*[a-z]-\d+")
_TRANSACTION: Final = re.compile(r"transactions? \d+")


class Line(NamedTuple):
    at_ms: int
    node_id: int | None  # whose log says it
    subject: str  # a partition, a group, a transactional id, or nothing
    text: str

    def __str__(self) -> str:
        who = "" if self.node_id is None else f"[{self.node_id}] "
        about = f"{self.subject}: " if self.subject else ""
        return f"{self.at_ms:>8} {who}{about}{self.text}"


class Story(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._lines: list[Line] = []
        self._stage: Stage | None = None

    def begins(self, stage: "Stage") -> None:
        self._stage = stage

    # What happens

    def note(self, text: str, subject: str = "") -> None:
        assert self._stage is not None
        self._lines.append(Line(self._stage.clock.monotonic_ms(), None, subject, text))

    def emit(self, record: logging.LogRecord) -> None:
        stage = self._stage
        if stage is not None and record.name.startswith("headwater."):
            text = record.getMessage()
            if record.exc_info:
                text += f" ({record.exc_info[1]!r})"
            self._lines.append(Line(stage.clock.monotonic_ms(), stage.running, "", text))

    # What is told of it

    def subjects(self, violation: str) -> list[str]:
        """The partitions that a violation names, and the groups and transactional ids that this story knows."""
        known = {line.subject for line in self._lines if line.subject}
        begun = {line.text: line.subject for line in self._lines if line.text.endswith(" begins")}
        named = [word for word in _WORD.findall(violation) if word in known or _PARTITION.fullmatch(word)]
        named += [begun[text] for each in _TRANSACTION.findall(violation) if (text := f"{each} begins") in begun]
        return list(dict.fromkeys(named))

    def of(self, subjects: Iterable[str]) -> str:
        """With nothing that any of the subjects could not have to do with; the end, if it is very long."""
        wanted = set(subjects)
        found = _folded(line for line in self._lines if self._concerns(line, wanted))
        left_out = [f"({len(found) - LINES_MAX} lines before)"] if len(found) > LINES_MAX else []
        return "\n".join([*left_out, *found[-LINES_MAX:]])

    def _concerns(self, line: Line, wanted: set[str]) -> bool:
        if line.subject:
            return line.subject in wanted
        if line.node_id is None and line.text.startswith(_LIVES):
            return True
        return not wanted.isdisjoint(_WORD.findall(line.text))


def _folded(lines: Iterable[Line]) -> list[str]:
    """What is said again and again is told once, and then how often it was said until when."""
    told: list[str] = []
    for _, group in groupby(lines, key=lambda line: line[1:]):
        first, *more = group
        told.append(str(first))
        if more:
            told.append(f"{more[-1].at_ms:>8} (the same {len(more)} times more until here)")
    return told
