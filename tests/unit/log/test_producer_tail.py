"""After a restart the last five batches of a producer are known, not only the one that a snapshot has room for.

Found by our producer under a broker that was stopped and started: it had two batches written and not answered, sent
both again, was told that the first was out of order, and wrote both twice under a new epoch.
"""

import errno
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.log import Log

if TYPE_CHECKING:
    from conftest import World

NUMBERED = {"producer_id": 7, "producer_epoch": 0}


def restarted(world: "World", how: str) -> Log:
    return {"stopped": world.reopen, "killed": world.kill}[how]()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_was_not_answered_before_a_restart_is_not_written_again(world: "World", how: str) -> None:
    log = world.create()
    for sequence in range(8):
        world.append(log, base_sequence=sequence, **NUMBERED)
    log = restarted(world, how)
    for sequence in (3, 4, 5, 6, 7):
        assert world.append(log, base_sequence=sequence, **NUMBERED) == sequence
    assert log.log_end_offset == 8
    with pytest.raises(KafkaError) as refused:
        world.append(log, base_sequence=2, **NUMBERED)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_segment_that_was_just_begun_has_the_rest_before_it(world: "World", how: str) -> None:
    log = world.create(segment_bytes=400)
    for sequence in range(12):
        world.append(log, size=60, base_sequence=sequence, **NUMBERED)
    assert len(log.segments) > 3
    log = restarted(world, how)
    assert world.append(log, size=60, base_sequence=10, **NUMBERED) == 10
    assert log.log_end_offset == 12


def test_batches_of_an_earlier_epoch_are_not_taken_for_those_of_the_present_one(world: "World") -> None:
    log = world.create()
    for sequence in range(3):
        world.append(log, base_sequence=sequence, **NUMBERED)
    world.append(log, producer_id=7, producer_epoch=1, base_sequence=0)
    log = world.reopen()
    with pytest.raises(KafkaError):
        world.append(log, producer_id=7, producer_epoch=1, base_sequence=2)
    assert [batch[0] for batch in log.producers.producers[7].batches] == [0]


def test_other_producers_in_between_and_later_batches_do_not_matter(world: "World") -> None:
    log = world.create()
    for sequence in range(4):
        for producer_id in (7, 8, 9):
            world.append(log, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        world.append(log)
    log = world.reopen()
    for _ in range(30):
        world.append(log, size=5000)  # the place is far behind the end when it is asked for
    for at, producer_id in enumerate((7, 8, 9)):
        assert world.append(log, producer_id=producer_id, producer_epoch=0, base_sequence=2) == 8 + at
        assert [batch[0] for batch in log.producers.producers[producer_id].batches] == [0, 1, 2, 3]


def test_it_is_looked_up_once(world: "World") -> None:
    log = world.create()
    for sequence in range(3):
        world.append(log, base_sequence=sequence, **NUMBERED)
    log = world.reopen()
    assert world.append(log, base_sequence=1, **NUMBERED) == 1
    world.disk.bytes_read.clear()
    for _ in range(3):
        with pytest.raises(KafkaError):
            world.append(log, base_sequence=50, **NUMBERED)
    assert not world.disk.bytes_read


def test_it_is_looked_up_again_if_it_could_not_be_read(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tried again, and was told that its batch was out of order."""
    log = world.create()
    for sequence in range(3):
        world.append(log, base_sequence=sequence, **NUMBERED)
    log = world.reopen()

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", failing)
        with pytest.raises(KafkaError) as refused:
            world.append(log, base_sequence=1, **NUMBERED)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.append(log, base_sequence=1, **NUMBERED) == 1
    assert log.log_end_offset == 3
