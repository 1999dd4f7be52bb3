"""Which version both sides speak."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.negotiation import VersionRange, choose_version


@pytest.mark.parametrize(
    ("ours", "theirs", "version"),
    [((0, 5), (0, 3), 3), ((0, 3), (0, 5), 3), ((3, 13), (0, 13), 13), ((2, 4), (4, 9), 4), ((1, 1), (1, 1), 1)],
)
def test_the_highest_common_version_is_chosen(ours: tuple[int, int], theirs: tuple[int, int], version: int) -> None:
    assert choose_version(7, "Api", VersionRange(*ours), {7: VersionRange(*theirs)}) == version


def test_a_lower_version_can_be_asked_for() -> None:
    assert choose_version(1, "Fetch", VersionRange(4, 18), {1: VersionRange(4, 17)}, at_most=12) == 12


@pytest.mark.parametrize(
    ("theirs", "said"),
    [((0, 2), "the broker is too old for Produce: it offers versions 0-2"), ((14, 15), "the broker is too new")],
)
def test_ranges_that_do_not_meet_say_which_side_is_behind(theirs: tuple[int, int], said: str) -> None:
    with pytest.raises(KafkaError) as caught:
        choose_version(0, "Produce", VersionRange(3, 13), {0: VersionRange(*theirs)})
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert said in str(caught.value)


def test_an_api_that_is_not_offered_is_named() -> None:
    with pytest.raises(KafkaError, match=r"does not offer DeleteRecords \(API 21\)"):
        choose_version(21, "DeleteRecords", VersionRange(0, 2), {})
