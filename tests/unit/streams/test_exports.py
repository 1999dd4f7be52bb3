"""`headwater.streams` loads each of its names when it is first used."""

import pytest

import headwater.streams


@pytest.mark.parametrize("name", headwater.streams.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(headwater.streams, name) is getattr(headwater.streams, name)


def test_the_names_are_those_that_are_told_and_no_others() -> None:
    assert set(dir(headwater.streams)) >= set(headwater.streams.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = headwater.streams.nothing
