"""The thread of a run: whoever waits hears what ended it, and whoever asked is called."""

import threading

import pytest

from headwater.streams.lead.run_thread import RunThread

PATIENCE_S = 60


def test_what_ends_it_is_raised_where_somebody_waits() -> None:
    def run() -> None:
        raise ValueError("the reason")

    thread, heard = RunThread(run, "run"), list[str]()
    thread.end.add(lambda: heard.append("ended"))
    thread.start()
    with pytest.raises(ValueError, match="the reason"):
        thread.wait(PATIENCE_S)
    assert (heard, thread.is_alive, thread.started.is_set()) == (["ended"], False, True)


def test_one_that_goes_on_is_waited_for_no_longer_than_asked() -> None:
    may_end = threading.Event()
    thread = RunThread(lambda: may_end.wait(PATIENCE_S) and None, "run")
    thread.start()
    assert not thread.wait(0.01)
    assert thread.is_alive
    may_end.set()
    assert thread.wait(PATIENCE_S)


def test_its_state_is_told_before_anybody_hears_of_the_end() -> None:
    told: list[str] = []
    thread = RunThread(lambda: told.append("run"), "run", lambda: told.append("state"))
    thread.end.add(lambda: told.append("heard"))
    thread.start()
    thread.join()
    assert told == ["run", "state", "heard"]


def test_what_it_runs_may_ask_for_its_end_and_does_not_wait_for_itself() -> None:
    found: list[bool] = []

    def ask() -> None:
        found.append(thread.wait())
        thread.join()

    thread = RunThread(ask, "run")
    thread.end.add(ask)
    thread.start()
    assert thread.wait(PATIENCE_S)
    assert found == [False, False]
