"""A consumer of librdkafka that has locked itself up is told from one that waits for a broker."""

import threading

import pytest
from confluent_kafka import Consumer

from chaos.support import locked_up
from chaos.support.history import History
from chaos.support.locked_up import LOCKED_UP_S, LockedUp, Pulse, Watched
from chaos.support.workload import Client, Reader
from compat.support.members import until


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def nowhere() -> Consumer:
    return Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})


def test_a_thread_that_waits_for_a_lock_stands_still_until_it_has_it() -> None:
    lock, done, clock = threading.Lock(), threading.Event(), Clock()

    def wait() -> None:
        with lock:
            pass
        while not done.wait(0.01):
            pass

    with lock:
        thread = threading.Thread(target=wait)
        thread.start()
        assert thread.native_id is not None
        pulse = Pulse(thread.native_id, clock)

        def stands_still() -> bool:
            clock.now_s += 1
            return pulse.stands_still_s() > 5

        until(stands_still, "it never stands still")
    until(lambda: pulse.stands_still_s() == 0, "it has the lock and stands still")
    done.set()
    thread.join()
    clock.now_s += 100
    until(
        lambda: pulse.stands_still_s() == 0, "it has ended and stands still"
    )  # the system's thread ends after the join


def test_a_consumer_that_waits_for_brokers_is_not_locked_up() -> None:
    clock = Clock()
    before = locked_up._main_threads()
    consumer = nowhere()
    (thread,) = locked_up._main_threads() - before
    pulse = Pulse(thread, clock)
    pulse.stands_still_s()
    for _ in range(3):
        clock.now_s += LOCKED_UP_S + 1
        until(lambda: pulse.stands_still_s() == 0, "librdkafka's main thread does not wake")
    consumer.close()
    del consumer
    until(lambda: thread not in locked_up._main_threads(), "librdkafka's main thread does not end")
    assert pulse.stands_still_s() == 0


def test_what_is_locked_up_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(nowhere)
    assert not watched.is_locked_up("member-1")
    monkeypatch.setattr(Pulse, "stands_still_s", lambda _: LOCKED_UP_S + 1)
    with pytest.warns(LockedUp, match="member-1 is left alone"):
        assert watched.is_locked_up("member-1")
    assert watched.is_locked_up("member-1")  # a second warning would be an error
    watched.consumer.close()


def test_a_reader_that_is_locked_up_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be joined for ever."""
    entered, free = threading.Event(), threading.Event()

    def step(_: Client) -> None:
        entered.set()
        free.wait()

    monkeypatch.setattr(Reader, "step", step)
    reader = Reader("member-1", "127.0.0.1:1", "t", 1, History())
    reader.start()
    entered.wait()
    assert not reader.is_locked_up()
    monkeypatch.setattr(Pulse, "stands_still_s", lambda _: LOCKED_UP_S + 1)
    with pytest.warns(LockedUp, match="member-1"):
        reader.stop()
    assert reader.is_alive()
    free.set()
    reader.join()
    assert not reader.is_locked_up()


@pytest.mark.parametrize("count", [0, 2])
def test_the_main_thread_is_the_one_that_is_new(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_up, "NAMED_S", 0.1)
    made: list[Consumer] = []

    def make() -> Consumer:
        made.extend(nowhere() for _ in range(count))
        return None if count == 0 else made[0]

    with pytest.raises(ValueError, match="values to unpack"):
        Watched(make)
    for each in made:
        each.close()


def test_a_thread_that_is_called_so_until_it_names_itself_is_not_the_main_thread() -> None:
    """Brokers' threads of librdkafka have the name of the main thread at first, which starts them."""
    named, looked = threading.Event(), threading.Event()

    def rename(name: str) -> None:
        (locked_up.TASKS / str(threading.get_native_id()) / "comm").write_text(name)

    def run() -> None:
        rename(locked_up.MAIN_THREAD)
        named.set()
        looked.wait()
        rename("rdk:broker1")

    thread = threading.Thread(target=run)

    def make() -> Consumer:
        consumer = nowhere()
        thread.start()
        named.wait()
        threading.Timer(0.2, looked.set).start()
        return consumer

    watched = Watched(make)
    thread.join()
    assert not watched.is_locked_up("member-1")
    watched.consumer.close()
