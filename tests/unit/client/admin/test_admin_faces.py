"""Both faces have the same calls, with the same parameters, and every call of the package is in both."""

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client.admin import Admin, AsyncAdmin
from headwater.client.admin.calls import Asynchronous, Blocking
from headwater.client.session import Session

MODULES = (
    *("topics", "records", "configs", "cluster", "log_dirs", "replication", "groups", "members", "committed"),
    *("transactions", "acls", "quotas", "scram"),
)
PATIENCE_S = 60  # for what takes a moment, on a machine that is busy with others
CORES = {
    name: function
    for module in MODULES
    for name, function in vars(import_module(f"headwater.client.admin.{module}")).items()
    if inspect.iscoroutinefunction(function)
    and not name.startswith("_")
    and function.__module__ == f"headwater.client.admin.{module}"
}


def calls_of(face: type) -> dict[str, Any]:
    return {name: each for name, each in vars(face).items() if isinstance(each, Blocking | Asynchronous)}


def test_every_call_is_in_both_faces_under_its_own_name() -> None:
    assert len(CORES) >= 45
    for face, kind in ((Admin, Blocking), (AsyncAdmin, Asynchronous)):
        calls = calls_of(face)
        assert set(calls) == set(CORES)
        assert all(isinstance(each, kind) for each in calls.values())
        assert all(each.core() is CORES[name] for name, each in calls.items())


@pytest.mark.parametrize("name", sorted(CORES))
def test_a_method_has_the_parameters_and_the_words_of_its_call(name: str) -> None:
    core = inspect.signature(CORES[name])
    assert next(iter(core.parameters)) == "session"
    with Admin() as admin:
        for method in (getattr(admin, name), getattr(AsyncAdmin(), name)):
            assert list(inspect.signature(method).parameters.values()) == list(core.parameters.values())[1:]
            assert method.__doc__ == CORES[name].__doc__


async def _answer(session: Session, value: int) -> int:
    await session.kernel.sleep(0.001)
    return value


def test_calls_from_many_threads() -> None:
    with Admin() as admin:
        given: list[int] = []
        threads = [
            threading.Thread(target=lambda at=at: given.append(admin.run(lambda session: _answer(session, at))))
            for at in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(given) == list(range(8))


def test_a_closed_client_says_so() -> None:
    admin = Admin()
    admin.close()
    admin.close()
    with pytest.raises(UserError, match="closed"):
        admin.list_topics()

    async def closed() -> None:
        admin = AsyncAdmin()
        assert await admin.run(lambda session: _answer(session, 5)) == 5
        await admin.close()
        await admin.close()
        with pytest.raises(UserError, match="closed"):
            await admin.list_topics()

    asyncio.run(closed())


async def _wait_for_ever(session: Session) -> None:
    await session.kernel.sleep(1e6)


def test_closing_ends_the_calls_of_other_threads() -> None:
    admin = Admin()
    entered = threading.Event()
    ended: list[BaseException] = []

    async def waiting(session: Session) -> None:
        entered.set()
        await _wait_for_ever(session)

    def call() -> None:
        try:
            admin.run(waiting)
        except UserError as error:
            ended.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert entered.wait(PATIENCE_S)
    admin.close()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert len(ended) == 3


def test_a_call_that_signed_on_and_had_not_begun_when_the_client_was_closed_ends() -> None:
    """Closing came between a thread's signing on and its call: the call waited for ever, and so did the closing."""
    admin = Admin()
    signed_on = threading.Event()
    ended: list[UserError] = []
    run = admin._engine.run

    def begun_late(call: Coroutine[Any, Any, None]) -> None:
        signed_on.set()
        while not admin._closed:  # set with the lock held, which closing gives up only to wait for this call
            time.sleep(0.001)
        run(call)

    def call() -> None:
        admin._engine.run = begun_late  # type: ignore[assignment,method-assign]
        try:
            admin.run(_wait_for_ever)
        except UserError as error:
            ended.append(error)

    def close() -> None:
        assert signed_on.wait(PATIENCE_S)
        admin.close()

    threads = [threading.Thread(target=target, daemon=True) for target in (call, close)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert "closed" in str(ended[0])


def test_closing_does_not_wait_for_a_call_of_its_own_thread_that_was_interrupted() -> None:
    """Ctrl-C can come between signing on and the block that signs off, or on the way into the lock."""
    admin = Admin()

    def interrupted_and_closed() -> None:
        assert admin.run(lambda session: _answer(session, 5)) == 5
        admin._callers.add(threading.get_ident())
        admin._engine.lock.acquire()
        admin.close()

    thread = threading.Thread(target=interrupted_and_closed, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert admin._engine.lock.acquire(blocking=False)
    admin._engine.lock.release()


def test_closing_ends_the_calls_of_other_tasks() -> None:
    async def main() -> None:
        admin = AsyncAdmin()
        task = asyncio.create_task(admin.run(_wait_for_ever))
        await asyncio.sleep(0)
        await admin.close()
        with pytest.raises(UserError, match="closed"):
            await task
        assert admin._engine is None

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_the_client_usable() -> None:
    async def main() -> None:
        async with AsyncAdmin() as admin:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(admin.run(_wait_for_ever), 0.01)
            assert await admin.run(lambda session: _answer(session, 5)) == 5

    asyncio.run(main())


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(UserError, match="default_api_timeout_ms"):
        Admin(default_api_timeout=5)


def test_a_client_loads_the_modules_of_the_calls_that_it_makes_and_no_others() -> None:
    program = (
        "import sys; from headwater.client.admin import Admin\n"
        "with Admin() as admin: admin.list_topics\n"
        "print([each for each in sys.modules if each in ('asyncio', 'numpy', 'pyarrow') or 'acls' in each])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"


def test_the_guide_names_every_call() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "CLIENT.md").read_text(encoding="utf-8")
    assert [name for name in CORES if f"`{name}`" not in guide] == []
