"""Transactions on their hot path where compiled writes are there: they are tried first, and what they leave is written
in Python.
"""

from typing import Any

import pytest

from headwater.broker.coordinators.batches import build_decision
from headwater.broker.quick_writes import QuickWrites
from unit.broker.handlers.test_transaction_frames import PARTITIONS, Shop, code_of


class Writes:
    """Stands for the compiled ways: does in Python what they do, if they take it, and counts."""

    def __init__(self, *, takes_all: bool) -> None:
        self.takes_all = takes_all
        self.calls: list[str] = []

    def all(self) -> QuickWrites:
        return QuickWrites(lambda *_: -1, lambda *_: -1, self.commit, self.append)

    def append(self, partition: Any, transaction: Any, now_ms: int) -> int:
        self.calls.append(transaction.state.label)
        if not self.takes_all:
            return -1
        batch = build_decision([transaction.record(2)], now_ms, None)
        return int(partition.append_internal(memoryview(batch), now_ms).last_offset)

    def commit(
        self, partition: Any, producer_id: int, epoch: int, coordinator_epoch: int, version: int, now_ms: int
    ) -> int:
        self.calls.append("marker")
        if not self.takes_all:
            return -1
        given = (producer_id, epoch, coordinator_epoch, True, now_ms)
        return int(partition.append_marker(*given, transaction_version=version).last_offset)


@pytest.mark.parametrize("takes_all", [True, False])
@pytest.mark.parametrize("end_version", [1, 5])
def test_compiled_writes_are_tried_first(make_lab: Any, takes_all: bool, end_version: int) -> None:
    quick, general = Shop(make_lab()), Shop(make_lab())
    writes = Writes(takes_all=takes_all)
    quick.broker.quick_writes = writes.all()
    for committed in (True, False):
        for shop in (quick, general):
            ask = shop.at_once if shop is quick else shop.generally
            assert ask(shop.add_frame(0, 1)) is not None
            shop.write(1)
            answer = ask(shop.end_frame(end_version, committed=committed))
            assert answer is not None
            assert code_of(answer, end_version) == 0
            if end_version == 5:
                shop.epoch, shop.sequences = shop.epoch + 1, [0] * PARTITIONS
        assert quick.state() == general.state()
    commit = ["Ongoing", "PrepareCommit", "marker", "CompleteCommit"]
    assert writes.calls == [*commit, "Ongoing", "PrepareAbort", "CompleteAbort"]
