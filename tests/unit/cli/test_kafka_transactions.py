"""Which transaction `kafka-transactions abort` names to the brokers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.ids import TopicPartition
from headwater.cli.kafka import transactions
from headwater.client.admin import Admin
from headwater.client.admin.transactions import ActiveProducer


def aborted(*arguments: str, producers: tuple[ActiveProducer, ...] = ()) -> list[Any]:
    asked: list[Any] = []
    admin = SimpleNamespace(
        abort_transaction=lambda *what: asked.append(what),
        describe_producers=lambda partitions, broker_id=None: {each: list(producers) for each in partitions},
    )
    parser = transactions.make_parser()
    typed = parser.parse_args(["--bootstrap-server", "h:1", "abort", "--topic", "t", "--partition", "0", *arguments])
    transactions._abort(cast(Admin, admin), typed)
    return asked


@pytest.mark.parametrize("epoch", ["-1", "0", "3"])
def test_a_coordinator_that_never_wrote_a_marker_has_the_epoch_0(epoch: str) -> None:
    """find-hanging and describe-producers show -1 for it, and what they show is typed: it went into the marker."""
    wanted = (TopicPartition("t", 0), 7, 2, max(int(epoch), 0))
    assert aborted("--producer-id", "7", "--producer-epoch", "2", "--coordinator-epoch", epoch) == [wanted]
    producer = ActiveProducer(7, 2, int(epoch), 0, 0, 5)
    assert aborted("--start-offset", "5", producers=(producer,)) == [wanted]
