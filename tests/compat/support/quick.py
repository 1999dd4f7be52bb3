"""Settings under which groups and transactions do not make a test wait, and how long the rounds are."""

import os
from typing import Any, TypeVar

SOAK = os.environ.get("HEADWATER_SOAK") == "1"  # `make soak`

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}

Length = TypeVar("Length")


def quick(**more: object) -> dict[str, Any]:
    """For `broker_factory(tmp_path, **quick())`."""
    return {name.replace(".", "_"): value for name, value in QUICK.items()} | more


def lasting(few: Length, many: Length) -> Length:
    """How many rounds (or members): few in `make test`, many in `make soak`."""
    return many if SOAK else few
