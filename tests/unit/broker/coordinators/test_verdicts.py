"""A coordinator that may have been deposed ends no producer before it is certain that it coordinates."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest


class Doubtful:
    """The store of a broker in a cluster: the test says what becomes of a question."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def confirm(self, topic_id: bytes, partition: int, done: Any) -> None:
        self.asked.append(done)


@pytest.fixture
def shop(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["shop"]))
    answer = lab.ask(InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=1000), 5)
    assert answer.error_code == 0
    lab.producer = answer.producer_id, answer.producer_epoch
    store = Doubtful(lab.broker.store)
    monkeypatch.setattr(lab.broker, "store", store)
    monkeypatch.setattr(lab.broker, "peers", object())
    return lab


def end(shop: Any, epoch: int, *, committed: bool = False, version: int = 5) -> Any:
    producer_id, _ = shop.producer
    request = EndTxnRequest(transactional_id="shop", producer_id=producer_id, producer_epoch=epoch, committed=committed)
    return shop.begin(request, version)


DOUBTS = [
    (None, None),
    (KafkaError(ErrorCode.INVALID_UPDATE_VERSION), ErrorCode.NOT_COORDINATOR),
    (KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.NOT_COORDINATOR),
]
DOUBT_IDS = ["it coordinates", "another one does", "nobody knows"]


@pytest.mark.parametrize(("problem", "expected"), DOUBTS, ids=DOUBT_IDS)
def test_a_producer_is_fenced_only_by_who_surely_coordinates(
    shop: Any, problem: KafkaError | None, expected: ErrorCode | None
) -> None:
    """One that stood still had its transactional ids coordinated elsewhere meanwhile, and fenced a producer of a later
    epoch.
    """
    answer = end(shop, shop.producer[1] + 1)
    assert not answer.done
    (done,) = shop.broker.store.asked
    done(problem)
    assert answer.response.error_code == (expected or ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(("problem", "expected"), DOUBTS, ids=DOUBT_IDS)
def test_a_transaction_is_denied_only_by_who_surely_coordinates(
    shop: Any, problem: KafkaError | None, expected: ErrorCode | None
) -> None:
    """One without a session had not heard of a transaction that its successor knew. The producer took it for lost, and
    an EndTxn of its own that came late committed it.
    """
    answer = end(shop, shop.producer[1], committed=True)
    assert not answer.done
    (done,) = shop.broker.store.asked
    done(problem)
    assert answer.response.error_code == (expected or ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize(("problem", "expected"), DOUBTS, ids=DOUBT_IDS)
def test_an_end_is_told_again_only_by_who_surely_coordinates(
    shop: Any, problem: KafkaError | None, expected: ErrorCode | None
) -> None:
    """The epoch stays the same before transaction version 2: what is remembered may be the end of an earlier
    transaction.
    """
    producer_id, epoch = shop.producer
    offsets = AddOffsetsToTxnRequest(
        transactional_id="shop", producer_id=producer_id, producer_epoch=epoch, group_id="shop"
    )
    with pytest.MonkeyPatch.context() as alone:  # its group has a coordinator, which writes the marker
        alone.setattr(shop.broker, "peers", None)
        shop.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["shop"]))
        assert shop.ask(offsets, 3).error_code == 0
        end(shop, epoch, version=4)
        shop.settle()
    again = end(shop, epoch, version=4)
    assert not again.done
    (done,) = shop.broker.store.asked
    done(problem)
    assert again.response.error_code == (expected or 0)


def test_nothing_else_waits_for_that(shop: Any) -> None:
    end(shop, shop.producer[1])
    assert shop.broker.store.asked == []
