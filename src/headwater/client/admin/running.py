"""The calls of a face that are under way, so that closing it ends them instead of leaving them to wait for nothing."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from headwater.base.errors import UserError
from headwater.client.reactor.kernel import Cancelled, Kernel, Task

T = TypeVar("T")


def closed() -> UserError:
    return UserError("The admin client cannot be used any more", "it is closed")


class Running:
    """Owned by one face, and touched only by who owns the kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._tasks: set[Task[Any]] = set()
        self._ended = False

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine gives; an error if `end` comes first, be it before the call has begun."""
        if self._ended:  # a thread signs on, and begins its call a moment later: closing may come between the two
            coroutine.close()
            raise closed()
        task = self._kernel.spawn(coroutine)
        self._tasks.add(task)
        try:
            return await task
        except Cancelled:
            if self._ended:
                raise closed() from None
            raise
        finally:
            self._tasks.discard(task)
            task.cancel()

    def end(self) -> None:
        self._ended = True
        for task in list(self._tasks):
            task.cancel()
