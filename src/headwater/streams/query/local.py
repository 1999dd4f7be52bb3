"""A store of a run in this process, asked from any thread: by key, range, prefix, window and time.

It shows the last commit, so nothing that may still be undone. All partitions are asked: a value by key is that of the
partition that has the key, several rows come partition by partition, each in the order of its store. Each call is a
snapshot of its own, and closed when it returns.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.query.readable import NotReady, Readable, opened, store_names, store_plan
from headwater.streams.stores.state import StateClosed

_METHODS: Final = "docs/STREAMS.md, Interactive queries, has the methods of each kind"


class LocalStore:
    """Has the reading methods of the store that it stands for: `get`, `range`, `all`, `prefix`, `fetch`, `fetch_all`,
    ...
    """

    def __init__(self, name: str, tasks: Sequence[Readable], runs: Callable[[], bool] = lambda: True) -> None:
        self.name = name
        self._runs = runs
        self._tasks = [(task, plan) for task in tasks if (plan := store_plan(task, name)) is not None]
        if not self._tasks:
            known = store_names(tasks)
            raise UserError(f"There is no store {name}", f"these are there: {', '.join(known) or 'none'}")

    def get(self, *arguments: Any) -> Any:
        """A value by its key (of a window: and its start; of a session: and its start and end); None if there is
        none.
        """
        return next((found for found in self._each("get", arguments, {}) if found is not None), None)

    def get_as_of(self, key: Any, timestamp: int) -> Any:
        """Of a versioned store: what held at that time."""
        return next((found for found in self._each("get_as_of", (key, timestamp), {}) if found is not None), None)

    def approximate_count(self) -> int:
        return sum(self._each("approximate_count", (), {}))

    def __getattr__(self, method: str) -> Callable[..., list[Any]]:
        if method.startswith("_") or method in ("put", "delete", "remove", "put_all", "put_if_absent"):
            raise AttributeError(f"{method}: stores are only read from outside their application")

        def ask(*arguments: Any, **keywords: Any) -> list[Any]:
            return [row for rows in self._each(method, arguments, keywords) for row in rows]

        return ask

    def _each(self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Any]:
        for task, plan in self._tasks:
            try:
                with opened(task, plan) as store:
                    ask = getattr(store, method, None)
                    if ask is None:
                        raise UserError(
                            f"The store {self.name} has no {method}", f"it is a {plan.spec.kind.value} store", _METHODS
                        )
                    answer = ask(*arguments, **keywords)
                    yield list(answer) if isinstance(answer, Iterator) else answer
            except (NotReady, StateClosed):  # before it was asked for its state, or behind that
                if self._runs():
                    raise
                raise UserError(
                    f"The store {self.name} is not there any more", "its application has ended here", "Start it again"
                ) from None
