"""Exactly once with real parts: the driver (also between two EndTxns), Python workers and the broker are killed at
random moments, and the number of tasks changes from start to start. The output holds each input once; the group has no
lag. The last but one run dies with more transactions open than the last one has tasks: those must not hold readers up.
The broker, a worker or both die under the last one, which goes on or is started once more.

One round before those two in `make test`, 30 in `make soak`.
"""

import random
import time
from pathlib import Path

import pytest

from chaos.support.dice import dice as throw_dice
from compat.support.quick import lasting, quick
from headwater.client import Admin, NewTopic
from headwater.testing import Broker
from spark.support.copy_process import STEPS
from spark.support.copying import PARTITIONS, PATIENCE_S, TOPIC, Copy, copies, lag, send

MOST_TASKS = 4


@pytest.mark.soak
@pytest.mark.timeout(lasting(1200, 7200))
def test_each_effect_once_whoever_is_killed(tmp_path: Path) -> None:
    dice = throw_dice()
    sent: list[str] = []
    config = {name.replace("_", "."): value for name, value in quick().items()}
    with (
        Broker(config, data_dir=str(tmp_path / "broker")) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        servers = broker.bootstrap_servers
        admin.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic(f"{TOPIC}.target", PARTITIONS)])
        for number in range(lasting(1, 30)):
            sent += send(servers, len(sent))
            die = ("between", "")[number] if number < 2 else dice.choice(("", "", *STEPS))
            with Copy(servers, tmp_path, dice.randint(3 if die == "between" else 2, MOST_TASKS), die) as copy:
                copy.wait_for("started")
                if die:
                    copy.wait_until_dead()
                    continue
                if number == 1 or dice.random() < 0.5:
                    copy.wait_for("batch")
                disturb(dice, copy, broker)
                time.sleep(dice.uniform(0, 3))
                copy.kill(whole=dice.random() < 0.5)
        sent += send(servers, len(sent))
        with Copy(servers, tmp_path, MOST_TASKS, "WriteDecision") as copy:
            copy.wait_until_dead()
        left_open = {each.transactional_id.rpartition("-")[2] for each in admin.list_transactions(states=["Ongoing"])}
        assert left_open == {str(task) for task in range(MOST_TASKS)}, copy.log
        sent += send(servers, len(sent))
        with Copy(servers, tmp_path, 2) as copy:
            copy.wait_for("batch")
            sent += send(servers, len(sent))
            disturb(dice, copy, broker)
            follow_to_the_end(admin, copy)
        if lag(admin):
            with Copy(servers, tmp_path, 2) as copy:
                follow_to_the_end(admin, copy)
                assert copy.alive, copy.log
        assert sorted(copies(servers)) == sorted(f"copy of {value}" for value in sent)


def follow_to_the_end(admin: Admin, copy: Copy) -> None:
    """Of the input, or of the query: whoever disturbs a query may end it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while lag(admin) and copy.alive:
        assert time.monotonic() < deadline_s, copy.log
        time.sleep(0.2)


def disturb(dice: random.Random, copy: Copy, broker: Broker) -> None:
    """The broker dies under the query, or a worker does, or both."""
    what = dice.choice(("broker", "worker", "both"))
    if what != "worker":
        broker.kill()
        time.sleep(dice.uniform(0, 1))
        broker.start()
        time.sleep(dice.uniform(0, 2))
    if what != "broker":
        copy.kill_worker(dice)
