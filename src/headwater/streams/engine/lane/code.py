"""Python as it is being written: lines, the names that stand for objects outside, and what flows between nodes. Owned
by one compilation.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from headwater.streams.serdes.port import Serde


class NotInLane(Exception):
    """A node, a store or a setting that only the nodes themselves can do."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A variable with the bytes of a key or value, and the serde that they are of."""

    serde: Serde
    variable: str


@dataclass(frozen=True, slots=True)
class WindowKey:
    """The key of a row of a windowed table: the bytes of the key within, those of both, and the serde of the former."""

    serde: Serde
    inner: str
    both: str


@dataclass(frozen=True, slots=True)
class Flow:
    """A record on its way, as expressions. `old` is set in a table: `value` is the new value then."""

    key: str
    value: str
    time: str
    raw_key: Raw | None = None
    raw_value: Raw | None = None
    old: str | None = None
    window: WindowKey | None = None
    at_source_time: bool = True

    def with_key(self, key: str) -> "Flow":
        return replace(self, key=key, raw_key=None, window=None)

    def with_value(self, value: str) -> "Flow":
        return replace(self, value=value, raw_value=None, old=None)


class Code:
    """The text of one function. What it names is bound when it is compiled."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.before: list[str] = []  # once per run, before the first record
        self.through: list[str] = []  # behind the last record, where something may still fail
        self.failed: list[str] = []  # when a record has failed: what takes back what has happened before it
        self.after: list[str] = []  # and behind the last, when nothing can fail any more
        self._lines: list[str] = []  # of the source that is being written
        self._sources: list[list[str]] = []
        self._depth = 2
        self._numbers: dict[str, int] = {}
        self._bound: dict[tuple[int, str], str] = {}

    def name(self, hint: str) -> str:
        number = self._numbers.get(hint, 0)
        self._numbers[hint] = number + 1
        return f"{hint}_{number}"

    def bind(self, thing: Any, hint: str) -> str:
        """A name for an object outside."""
        known = self._bound.get((id(thing), hint))
        if known is None:
            known = self._bound[id(thing), hint] = self.name(hint)
            self.names[known] = thing
        return known

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self.line("pass")
        self._depth -= 1

    def uses(self, variable: str) -> bool:
        word = re.compile(rf"\b{variable}\b")
        return any(word.search(line) for line in self._lines)

    def begin_source(self) -> int:
        """The lines that follow are those of another source."""
        self._lines = []
        self._sources.append(self._lines)
        return len(self._sources) - 1

    def function(self, columns: list[dict[str, str]]) -> str:
        """`columns`, of each source: by the variable of a record, what it is read from. `order` has the number of the
        source of each record.
        """
        count = range(len(columns))
        parameters = ", ".join(f"in_raw_keys_{n}, in_raw_values_{n}, in_times_{n}" for n in count)
        text = [f"def run(order, {parameters}):", *_indented(self.before)]
        loop = [*self._loop(columns), *_indented(self.through)]
        if self.failed:
            loop = [
                "    try:",
                *_indented(loop),
                "    except BaseException:",
                *_indented(_indented(_one_after_the_other(self.failed))),
            ]
        return "\n".join([*text, *loop, *_indented(self.after)])

    def _loop(self, columns: list[dict[str, str]]) -> list[str]:
        if len(columns) == 1:
            ((names, lists),) = [(", ".join(each), ", ".join(each.values())) for each in columns]
            return [f"    for {names} in zip({lists}, strict=True):", *self._sources[0], "        pass"]
        text = []
        for number, each in enumerate(columns):
            text.append(f"    in_next_{number} = zip({', '.join(each.values())}, strict=True).__next__")
        text.append("    for in_source in order:")
        for number, each in enumerate(columns):
            text.append(f"        {'el' if number else ''}if in_source == {number}:")
            text.append(f"            {', '.join(each)}, = in_next_{number}()")
            text += ["    " + line for line in self._sources[number]]
        return text

    def compiled(self, text: str, file: str) -> Callable[..., None]:
        names = dict(self.names)
        exec(compile(text, file, "exec"), names)  # noqa: S102 - our own text, which has names of ours only
        run: Callable[..., None] = names["run"]
        return run


def reader(serde: Serde) -> Callable[[bytes], Any]:
    """Of one cell; in a lane nobody reads what an error says."""
    quick: Callable[[bytes], Any] | None = getattr(serde, "deserialize_quickly", None)
    return quick or serde.deserialize


def _one_after_the_other(lines: list[str]) -> list[str]:
    """Each one, whatever becomes of those before it; then the failure goes on."""
    if not lines:
        return ["raise"]
    return ["try:", f"    {lines[0]}", "finally:", *_indented(_one_after_the_other(lines[1:]))]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
