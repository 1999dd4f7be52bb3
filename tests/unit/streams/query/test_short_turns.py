"""How long the interpreter stays with a thread while queries are answered."""

import sys
from collections.abc import Iterator

import pytest

from headwater.base.errors import UserError
from headwater.streams.query.server import QueryServer
from headwater.streams.query.short_turns import ShortTurns


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_server_has_ended() -> None:
    """A query of a slot waited for 5 ms and more before the thread of its tasks let it be read."""
    one, two = QueryServer("one", lambda: ()).start(), QueryServer("two", lambda: ()).start()
    assert sys.getswitchinterval() == pytest.approx(0.001)
    one.stop()
    assert sys.getswitchinterval() == pytest.approx(0.001)
    two.stop()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_a_server_that_cannot_listen_leaves_nothing_behind() -> None:
    with QueryServer("one", lambda: ()).start() as one:
        taken = int(one.url.rpartition(":")[2])
        with pytest.raises(UserError):
            QueryServer("two", lambda: (), port=taken).start()
        assert sys.getswitchinterval() == pytest.approx(0.001)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_what_was_shorter_stays() -> None:
    sys.setswitchinterval(0.0002)
    turns = ShortTurns()
    turns.begin()
    assert sys.getswitchinterval() == pytest.approx(0.0002, abs=5e-6)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(0.0002, abs=5e-6)
