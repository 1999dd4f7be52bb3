"""How one coroutine becomes a method of both faces, with its types.

An admin call is written once, as `async def name(session, ...)` in a module of this package. A face names it in a line:
`create_topics = Blocking(lambda: topics.create_topics)`. The method has the call's own parameters, result and
docstring, for type checkers and for `help()`. The lambda is there because the modules load when a call is first made: a
command that lists topics does not pay for access rules.
"""

import functools
from collections.abc import Callable, Coroutine
from importlib import import_module
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from headwater.client.session import Session

P = ParamSpec("P")
T = TypeVar("T")

Core = Callable[Concatenate[Session, P], Coroutine[Any, Any, T]]


class BlockingFace(Protocol):
    """A session, and a thread that drives it while it waits: `Admin`, or a simulated world in tests."""

    @property
    def session(self) -> Session: ...

    def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T: ...


class AsyncFace(Protocol):
    async def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T: ...


class LazyModule:
    """Stands for a module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


class Blocking(Generic[P, T]):
    """A call as a method that waits for its result."""

    def __init__(self, core: Callable[[], Core[P, T]]) -> None:
        self.core = core

    def __get__(self, face: BlockingFace | None, owner: type | None = None) -> Callable[P, T]:
        function = self._function
        return function if face is None else MethodType(function, face)

    @functools.cached_property
    def _function(self) -> Callable[..., T]:
        core = self.core()

        def method(face: BlockingFace, *args: P.args, **kwargs: P.kwargs) -> T:
            return face.run(lambda session: core(session, *args, **kwargs))

        return functools.update_wrapper(method, core)


class Asynchronous(Generic[P, T]):
    """A call as a coroutine method for asyncio."""

    def __init__(self, core: Callable[[], Core[P, T]]) -> None:
        self.core = core

    def __get__(self, face: AsyncFace | None, owner: type | None = None) -> Callable[P, Coroutine[Any, Any, T]]:
        function = self._function
        return function if face is None else MethodType(function, face)

    @functools.cached_property
    def _function(self) -> Callable[..., Coroutine[Any, Any, T]]:
        core = self.core()

        async def method(face: AsyncFace, *args: P.args, **kwargs: P.kwargs) -> T:
            return await face.run(lambda session: core(session, *args, **kwargs))

        return functools.update_wrapper(method, core)
