"""What decisions are made of. A decision is a generator: it yields the work that may take long (parsing, comparing),
gets its result, and returns what it decided. Who runs it chooses where the work is done: in place, or in a thread.

A decision that writes runs while nobody else writes, so the state does not change under it. One that only reads takes
from the state what it needs before it yields.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from headwater.registry.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """`size_bytes`: how much text it is about, by which its time can be guessed."""

    run: Callable[[], Any]
    size_bytes: int


Steps: TypeAlias = Generator[Work, Any, T]


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to write, all or none of them, and the document to answer once they are written."""

    records: list[Record]
    answer: Any


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a registry that decisions depend on."""

    compatibility: str = "BACKWARD"
    mode_mutable: bool = True
    validate_fields: bool = False
    validate_new_schemas: bool = True
    schema_bytes_max: int = 1_000_000  # of the text of one schema: it must fit into a record
    schema_search_default_limit: int = 1000
    schema_search_max_limit: int = 1000
    subject_search_default_limit: int = 20000
    subject_search_max_limit: int = 20000
    subject_version_search_default_limit: int = 20000
    subject_version_search_max_limit: int = 20000
    context_search_default_limit: int = 2000
    context_search_max_limit: int = 2000


def run_in_place(steps: Steps[T]) -> T:
    """For tests, and where nothing else waits."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            work = steps.throw(error) if error is not None else steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        result, error = None, None
        try:
            result = work.run()
        except Exception as problem:  # noqa: BLE001 - the decision's to handle
            error = problem


@dataclass(slots=True)
class Page:
    """`offset` and `limit` of a listing; a limit below 1 or above the maximum is the default one."""

    offset: int = 0
    limit: int = -1
    default_limit: int = field(default=20000)
    max_limit: int = field(default=20000)

    def of(self, items: list[T]) -> list[T]:
        limit = self.limit if 0 < self.limit <= self.max_limit else self.default_limit
        start = max(0, self.offset)
        return items[start : start + limit]
