"""Whoever wants to hear of the end hears of it once, before it or after it."""

import pytest

from headwater.streams.lead.end_callbacks import EndCallbacks


def test_each_callback_is_called_once() -> None:
    ends, heard = EndCallbacks(), list[str]()
    ends.add(lambda: heard.append("before"))
    assert (heard, ends.has_ended) == ([], False)
    ends.end()
    assert (heard, ends.has_ended) == (["before"], True)
    ends.add(lambda: heard.append("after"))
    ends.end()
    assert heard == ["before", "after"]


def test_one_that_raises_keeps_no_other_from_hearing() -> None:
    ends, heard = EndCallbacks(), list[str]()
    ends.add(lambda: heard.append("first"))
    ends.add(lambda: heard.append(str(1 // 0)))
    ends.add(lambda: heard.append("last"))
    with pytest.raises(ZeroDivisionError):
        ends.end()
    assert heard == ["first", "last"]
