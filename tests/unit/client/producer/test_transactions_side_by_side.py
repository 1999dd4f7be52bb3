"""Calls of a transactional producer while others of its calls, or deliveries, are under way."""

import pytest

from headwater.base.errors import UserError
from headwater.client.producer.transaction_manager import State
from unit.client.producer.producer_fakes import HOLD
from unit.client.producer.transaction_fakes import Coordinated


@pytest.fixture(params=[True, False], ids=["new", "old"])
def rig(request: pytest.FixtureRequest) -> Coordinated:
    made = Coordinated(new=request.param)
    made.init()
    return made


def test_a_record_that_is_sent_while_a_transaction_is_prepared_is_refused(rig: Coordinated) -> None:
    """It was written after the transaction had been handed over as complete."""
    refused: list[str] = []

    def another(*_: object) -> None:
        with pytest.raises(UserError) as raised:
            rig.put(b"late")
        refused.append(raised.value.what)

    rig.transactions.begin()
    rig.put(b"v", on_delivery=another)
    rig.world.run(rig.transactions.prepare())
    rig.flush()
    assert refused == ["No transaction is open"]
    assert rig.logs.values[0] == [b"v"]


def test_a_transaction_that_cannot_be_prepared_in_time_stays_open(rig: Coordinated) -> None:
    rig.logs.next_answers = [HOLD]
    rig.transactions.begin()
    rig.put(b"v")
    preparing = rig.world.kernel.spawn(rig.transactions.prepare())
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.FLUSHING
    preparing.cancel()
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.OPEN
