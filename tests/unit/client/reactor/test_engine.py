"""Who drives the kernel: threads that wait, the caretaker, an asyncio loop. Real sockets, of a listener in the test."""

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from headwater.client.addresses import Address
from headwater.client.reactor.aio import AioEngine
from headwater.client.reactor.kernel import Closed, Future, TimedOut
from headwater.client.reactor.network import Network
from headwater.client.reactor.thread_engine import Engine

PATIENCE_S = 60  # for what takes a moment, on a machine that is busy with others


class Owner:
    """Keeps what the stream tells."""

    def __init__(self) -> None:
        self.connected: Future[None] = Future()
        self.frames: list[bytes] = []
        self.came: Future[bytes] = Future()
        self.closed: Future[Exception | None] = Future()

    def stream_connected(self) -> None:
        self.connected.resolve(None)

    def stream_frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.came.resolve(bytes(frame))

    def stream_closed(self, error: Exception | None) -> None:
        self.closed.resolve(error)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        yield server


@pytest.fixture(params=[True, False], ids=["patient", "standing by"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = Engine(Network(), patient=request.param)
    yield made
    made.close()


def address(listener: socket.socket) -> Address:
    return Address(*listener.getsockname())


async def wait(future: "Future[Any]") -> Any:
    return await future


def test_frames_of_all_sizes_come_whole(engine: Engine, listener: socket.socket) -> None:
    owner = Owner()
    stream = engine.submit(lambda: engine.network.dial(address(listener), owner, 1 << 30))
    engine.run(wait(owner.connected), PATIENCE_S)
    peer, _ = listener.accept()
    sizes = [0, 1, 3, 1000, 128 * 1024, 128 * 1024 - 4, 3_000_000, 5, 200_000]
    content = [bytes([at]) * size for at, size in enumerate(sizes)]
    data = b"".join(len(each).to_bytes(4, "big") + each for each in content)
    sender = threading.Thread(target=peer.sendall, args=(data,))
    sender.start()

    async def all_came() -> None:
        while len(owner.frames) < len(sizes):
            await engine.kernel.sleep(0.001)

    engine.run(all_came(), PATIENCE_S)
    sender.join()
    assert owner.frames == content
    engine.submit(stream.close)
    peer.close()


def test_what_is_written_before_and_after_the_connection_arrives_in_order(
    engine: Engine, listener: socket.socket
) -> None:
    owner = Owner()
    stream = engine.submit(lambda: engine.network.dial(address(listener), owner, 100))
    engine.submit(lambda: stream.write([b"first ", b"second "]))
    engine.run(wait(owner.connected), PATIENCE_S)
    peer, _ = listener.accept()
    large = b"x" * 10_000_000
    engine.submit(lambda: stream.write([large, bytearray(b" end")]))
    received = bytearray()
    while len(received) < len(large) + 17:
        received += peer.recv(1 << 20)  # the caretaker sends the rest
    assert received == b"first second " + large + b" end"
    assert engine.submit(lambda: stream.unsent_bytes) == 0
    engine.submit(stream.close)
    peer.close()


def test_a_peer_that_closes_and_a_frame_that_is_too_large(engine: Engine, listener: socket.socket) -> None:
    owner = Owner()
    engine.submit(lambda: engine.network.dial(address(listener), owner, 100))
    peer, _ = listener.accept()
    peer.close()
    assert engine.run(wait(owner.closed), PATIENCE_S) is None
    greedy = Owner()
    engine.submit(lambda: engine.network.dial(address(listener), greedy, 100))
    peer, _ = listener.accept()
    peer.sendall(b"\0\0\0\x65" + b"x" * 101)
    assert "claims 101 bytes" in str(engine.run(wait(greedy.closed), PATIENCE_S))
    peer.close()


def test_a_refused_connection_is_told(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = address(gone)
    owner = Owner()
    engine.submit(lambda: engine.network.dial(nobody, owner, 100))
    assert isinstance(engine.run(wait(owner.closed), PATIENCE_S), ConnectionRefusedError)


def test_a_name_that_stands_for_nothing(engine: Engine) -> None:
    owner = Owner()
    engine.submit(lambda: engine.network.dial(Address("no-such-host.invalid", 1), owner, 100))
    assert isinstance(engine.run(wait(owner.closed), PATIENCE_S), socket.gaierror)


def test_an_address_of_a_family_that_the_machine_has_not_is_passed_over(
    engine: Engine, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without IPv6, localhost still stands for ::1 first: nobody tried 127.0.0.1, and a caller got a bare OSError."""
    open_socket = engine.network.open_socket

    def without_ipv6(family: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return open_socket(family)

    port = listener.getsockname()[1]
    found = [(socket.AF_INET6, 1, 6, "", ("::1", port, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(engine.network, "open_socket", without_ipv6)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    owner = Owner()
    stream = engine.submit(lambda: engine.network.dial(Address("localhost", port), owner, 100))
    engine.run(wait(owner.connected), PATIENCE_S)
    engine.submit(stream.close)


def test_a_socket_that_cannot_be_made_is_a_connection_that_failed(
    engine: Engine, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a descriptor left, the caretaker ended, and with it all retries and heartbeats."""

    def full(_: int) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(engine.network, "open_socket", full)
    owner = Owner()
    engine.submit(lambda: engine.network.dial(address(listener), owner, 100))
    assert "Too many open files" in str(engine.run(wait(owner.closed), PATIENCE_S))


def test_run_gives_up_in_time_and_cancels(engine: Engine) -> None:
    cleaned: list[bool] = []

    async def long() -> None:
        try:
            await engine.kernel.sleep(100)
        finally:
            cleaned.append(True)

    with pytest.raises(TimedOut):
        engine.run(long(), 0.01)
    assert cleaned == [True]


def test_threads_share_the_kernel(engine: Engine) -> None:
    """Each gets its own result, whoever polls; none waits for another's longer sleep."""
    numbers = (20, 1, 5, 10)
    sleeps: dict[int, Future[None]] = {number: Future() for number in sorted(numbers)}
    arrived: list[int] = []
    woken: list[int] = []
    results: list[int] = []

    async def work(number: int) -> int:
        arrived.append(number)
        if len(arrived) == len(numbers):
            for each in sleeps:  # the shortest first: a pause in between changes nothing of their order
                engine.kernel.after(each / 50, partial(sleeps[each].resolve, None))
        await sleeps[number]
        woken.append(number)
        return number

    def caller(number: int) -> None:
        assert engine.run(work(number)) == number
        results.append(number)

    threads = [threading.Thread(target=caller, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert woken == [1, 5, 10, 20]
    assert sorted(results) == woken


def test_the_caretaker_drives_while_nobody_waits(engine: Engine) -> None:
    done = threading.Event()

    async def background() -> None:
        for _ in range(3):
            await engine.kernel.sleep(0.01)
        done.set()

    engine.submit(lambda: engine.kernel.spawn(background()))
    assert done.wait(PATIENCE_S)


def test_the_caretaker_outlives_what_raises_in_it(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """It ended: nothing in the background ran any more, and nobody was told."""

    def fail() -> None:
        raise OSError("of a timer")

    done = threading.Event()
    engine.submit(lambda: engine.kernel.after(0.01, fail))
    engine.submit(lambda: engine.kernel.after(0.05, done.set))
    assert done.wait(PATIENCE_S)
    assert "of a timer" in caplog.text


def test_an_earlier_timer_wakes_the_poller(engine: Engine) -> None:
    """The caretaker sleeps until a far timer; what another thread plans before it is not late."""
    engine.submit(lambda: engine.kernel.after(10 * PATIENCE_S, lambda: None))
    done = threading.Event()
    engine.submit(lambda: engine.kernel.after(0.01, done.set))
    assert done.wait(PATIENCE_S)


def test_asyncio_drives_the_kernel(listener: socket.socket) -> None:
    async def main() -> bytes:
        engine = AioEngine(Network())
        owner = Owner()
        stream = engine.submit(lambda: engine.network.dial(address(listener), owner, 100))
        await engine.wait(owner.connected)
        peer, _ = listener.accept()
        engine.submit(lambda: stream.write([b"question"]))
        assert await asyncio.to_thread(peer.recv, 100) == b"question"
        peer.sendall(b"\0\0\0\x06answer")
        answer = await asyncio.wait_for(engine.wait(owner.came), PATIENCE_S)
        began = time.monotonic()
        await asyncio.gather(engine.run(engine.kernel.sleep(0.02)), engine.run(engine.kernel.sleep(0.01)))
        assert time.monotonic() - began >= 0.02
        engine.submit(stream.close)
        engine.close()
        peer.close()
        return answer

    assert asyncio.run(main()) == b"answer"


def test_cancelling_in_asyncio_cancels_the_task() -> None:
    async def main() -> list[str]:
        engine = AioEngine(Network())
        seen: list[str] = []

        async def long() -> None:
            try:
                await engine.kernel.sleep(100)
            finally:
                seen.append("cleaned up")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.run(long()), 0.01)
        engine.close()
        return seen

    assert asyncio.run(main()) == ["cleaned up"]


def test_a_closed_network_is_not_woken() -> None:
    """Its descriptors may be somebody else's by then."""
    network = Network()
    network.close()
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes the lowest free descriptors
        left, right = socket.socketpair()
        with left, right:
            network.wake()
            network.post(lambda: None)
            right.setblocking(False)
            left.setblocking(False)
            for end in (left, right):
                with pytest.raises(BlockingIOError):
                    end.recv(1)
        assert server.fileno() >= 0


def test_a_lock_that_ctrl_c_left_behind_does_not_keep_close_from_its_end() -> None:
    """It comes between the end of `acquire` and the block that releases."""
    engine = Engine(Network(), patient=True)
    engine.submit(lambda: None)  # starts the caretaker
    engine.lock.acquire()
    engine.close()
    assert not engine.owned


def test_ctrl_c_within_a_task_ends_it_for_those_who_wait_for_it(engine: Engine) -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    tasks: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        engine.submit(lambda: tasks.append(engine.kernel.spawn(interrupted())))
    assert tasks[0].done


def test_a_signal_handler_may_wake_in_the_middle_of_a_wake() -> None:
    """It runs in the thread that it interrupts: a lock that this one holds must let it pass."""
    network = Network()
    with network._waking:  # as `wake` holds it
        network.wake()  # as the handler calls it
    assert network.poll(0), "the wake-up came through"
    network.close()


def test_a_caller_that_polls_is_woken_when_another_thread_brings_what_it_waits_for(engine: Engine) -> None:
    future: Future[int] = Future()
    results: list[int] = []
    caller = threading.Thread(target=lambda: results.append(engine.run(wait(future), timeout=2 * PATIENCE_S)))
    caller.start()
    give_up_at = time.monotonic() + PATIENCE_S
    while engine._polls_for is None and time.monotonic() < give_up_at:
        time.sleep(0.001)
    engine.submit(lambda: future.resolve(5))
    caller.join(PATIENCE_S)
    assert results == [5]


def test_a_caller_that_sleeps_is_woken_when_another_thread_brings_what_it_waits_for(engine: Engine) -> None:
    """While a third polls, who has no reason to stop."""
    futures: list[Future[int]] = [Future(), Future()]
    results: list[int] = []
    threads = []
    for number, future in enumerate(futures, 1):
        threads.append(
            threading.Thread(target=lambda each=future: results.append(engine.run(wait(each), timeout=2 * PATIENCE_S)))  # type: ignore[misc]
        )
        threads[-1].start()
        give_up_at = time.monotonic() + PATIENCE_S
        while (len(engine._callers) < number or not engine._polling) and time.monotonic() < give_up_at:
            time.sleep(0.001)
    engine.submit(lambda: futures[1].resolve(2))
    threads[1].join(PATIENCE_S)
    assert results == [2]
    engine.submit(lambda: futures[0].resolve(1))
    threads[0].join(PATIENCE_S)
    assert results == [2, 1]


def test_close_ends_who_waits_in_other_threads_before_the_sockets_go(engine: Engine) -> None:
    """Both the one that polls and the one that sleeps; a selector that is closed under a poller leaves it there for
    ever.
    """
    never: Future[None] = Future()
    heard: list[BaseException] = []
    waiting = [threading.Event(), threading.Event()]

    async def signs_on(event: threading.Event) -> None:
        event.set()
        await never

    def wait_for_nothing(event: threading.Event) -> None:
        try:
            engine.run(signs_on(event))
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            heard.append(error)

    threads = [threading.Thread(target=wait_for_nothing, args=(event,), daemon=True) for event in waiting]
    for thread, event in zip(threads, waiting, strict=True):
        thread.start()
        assert event.wait(PATIENCE_S)
    engine.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [type(error) for error in heard] == [Closed, Closed]


def test_what_came_before_close_is_given(engine: Engine) -> None:
    """The value is there, and the thread that waits for it has not had its turn."""
    value: Future[str] = Future()
    given: list[str] = []
    waiting = threading.Event()

    async def signs_on() -> str:
        waiting.set()
        return await value

    thread = threading.Thread(target=lambda: given.append(engine.run(signs_on())), daemon=True)
    thread.start()
    assert waiting.wait(PATIENCE_S)
    with engine.lock:
        value.resolve("came")
        engine._closed = True
        engine._end_callers()
        engine._closed = False
    thread.join(PATIENCE_S)
    assert given == ["came"]


def test_a_closed_engine_runs_nothing(engine: Engine) -> None:
    engine.close()
    with pytest.raises(Closed, match="it is closed"):
        engine.run(wait(Future()))


def test_close_ends_what_other_tasks_of_the_loop_wait_for() -> None:
    async def main() -> None:
        engine = AioEngine(Network())
        value: Future[str] = Future()
        came = asyncio.create_task(engine.wait(value))
        never = asyncio.create_task(engine.wait(Future()))
        await asyncio.sleep(0)
        value.resolve("came")
        engine.close()
        assert await asyncio.wait_for(came, 60) == "came"
        with pytest.raises(Closed):
            await asyncio.wait_for(never, 60)
        with pytest.raises(Closed):
            await engine.run(wait(Future()))

    asyncio.run(main())


def test_a_network_that_is_closed_first_leaves_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        network = Network()
        stream = network.dial(Address("127.0.0.1", listener.getsockname()[1]), Owner(), 1000)
        network.dispatch(network.poll(PATIENCE_S))  # the name is looked up, and the connection begun
        opened = stream._socket
        assert opened is not None
        network.close()
        assert opened.fileno() == -1
        stream.close()


def test_a_stream_whose_selector_has_lost_it_closes_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        network = Network()
        stream = network.dial(Address("127.0.0.1", listener.getsockname()[1]), Owner(), 1000)
        network.dispatch(network.poll(PATIENCE_S))
        opened = stream._socket
        assert opened is not None
        network.selector.unregister(opened)
        stream.close()
        assert opened.fileno() == -1
        network.close()
