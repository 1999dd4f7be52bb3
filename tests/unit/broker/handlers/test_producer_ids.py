"""Producer ids without transactions: unique for ever, handed out from blocks, and a full disk is not the end of a
producer.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.wire.messages.init_producer_id import InitProducerIdRequest


def request(producer_id: int = -1, producer_epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=producer_epoch
    )


def test_ids_are_never_given_twice_also_across_restarts(lab: Any) -> None:
    given = [lab.ask(request()).producer_id for _ in range(1001)]
    lab = lab.restarted()
    given.append(lab.ask(request()).producer_id)
    assert len(set(given)) == 1002


def test_many_that_wait_for_one_block(lab: Any) -> None:
    waiting = [lab.begin(request()) for _ in range(2500)]
    lab.settle()
    assert len({answer.response.producer_id for answer in waiting}) == 2500


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_lost_its_sequence_gets_a_fresh_id(lab: Any, version: int) -> None:
    answer = lab.ask(request(7, 3), version)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert lab.ask(request(7, -1), version).error_code == ErrorCode.INVALID_REQUEST


def test_a_full_disk_makes_the_producer_ask_again_and_not_give_up(lab: Any) -> None:
    lab.disk.faults.free_bytes = 0
    answer = lab.ask(request())
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    lab.disk.faults.free_bytes = 1 << 40
    assert lab.ask(request()).error_code == 0
