"""Three replicas under everything that can happen to them: loss, delay, cut links, deaf leaders, kills and power loss.

A script plays ZooKeeper and the controller: it elects only live members of the in-sync replicas, and whoever came back
in another life leaves them first, as the last member excepted. What a producer was told with acks=all must be found,
once everything is healed, on every replica at the offset that it was told. After every event, whatever a replica holds
below its own high watermark is byte for byte what was committed there before, on any replica, and a leader holds all of
it. Once healed, the three logs are equal.
"""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.base.ids import NO_BROKER
from headwater.broker.deferred import Deferred
from headwater.log.log import Log
from headwater.records.reader import read_batches, read_records
from unit.replication.cluster_lab import KEY, ClusterLab

BATCH_BYTES_MAX = 1 << 20


class Model:
    def __init__(self, seed: int, *, flush: bool) -> None:
        self.chance = random.Random(seed)
        self.flush = flush
        self.lab = ClusterLab(3, seed=seed, replica_lag_time_max_ms="2000", replica_fetch_backoff_ms="100")
        self.lab.create("orders", KEY.topic_id, (1, 2, 3), **({"flush_messages": "1"} if flush else {}))
        self.lab.delay_max_ms = 20
        self.acknowledged: dict[int, bytes] = {}
        self.committed: dict[int, bytes] = {}  # the batches below any replica's high watermark, by base offset
        self.waiting: list[tuple[bytes, Any]] = []
        self.count = 0

    # The controller

    def live(self) -> list[int]:
        return [node for node in (1, 2, 3) if self.lab.nodes[node].broker is not None]

    def reconcile(self) -> None:
        """The in-sync replicas without those of another life; a leader that lives and is one of them."""
        state = self.lab.state()
        members = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
        live = {node: self.lab.epoch_of(node) for node in self.live()}
        kept = {member: epoch for member, epoch in members.items() if live.get(member) == epoch}
        if not kept:  # the last ones stay; one alone may lead again whatever its life
            if len(members) > 1:
                last = next((member for member in members if member not in live), list(members)[-1])
                kept = {last: members[last]}
            else:
                kept = {member: live.get(member, epoch) for member, epoch in members.items()}
        leader = state.leader
        if leader not in live or leader not in kept:
            leader = next((member for member in state.replicas if member in kept and member in live), NO_BROKER)
        if leader == state.leader and kept == members:
            return
        self.lab.change(
            leader=leader,
            leader_epoch=state.leader_epoch + (leader != state.leader),
            in_sync_replicas=tuple(kept),
            in_sync_epochs=tuple(kept.values()),
        )

    # Events

    def step(self) -> None:
        kind = self.chance.choices(
            ["produce", "time", "kill", "restart", "cut", "mend", "deaf", "hear", "elect", "lose"],
            [60, 40, 3, 6, 4, 4, 2, 6, 4, 3],
        )[0]
        getattr(self, f"_{kind}")()
        self.look()

    def _produce(self) -> None:
        leaders = [node for node in self.live() if self.leads(node)]
        if leaders:
            self.count += 1
            value = b"%d" % self.count
            answer = self.lab.produce(self.chance.choice(leaders), value)
            self.waiting.append((value, answer))

    def _time(self) -> None:
        self.lab.run(self.chance.choice([1, 5, 30, 200, 1500]))

    def _kill(self) -> None:
        """One at a time. The last in-sync replica keeps what is not on the device, unless all of it is."""
        if len(self.live()) == 3:
            node = self.chance.choice(self.live())
            is_safe = self.flush or self.lab.state().in_sync_replicas != [node]
            self.lab.kill(node, power_loss=is_safe and self.chance.random() < 0.5)
            self.reconcile()

    def _restart(self) -> None:
        for node in (1, 2, 3):
            if self.lab.nodes[node].broker is None:
                self.lab.nodes[node].is_deaf = False
                self.lab.restart(node)
                self.reconcile()

    def _cut(self) -> None:
        self.lab.cut.add((self.chance.randint(1, 3), self.chance.randint(1, 3)))

    def _mend(self) -> None:
        self.lab.cut.clear()

    def _deaf(self) -> None:
        self.lab.nodes[self.chance.randint(1, 3)].is_deaf = True

    def _hear(self) -> None:
        for node in self.live():
            if self.lab.nodes[node].is_deaf:
                self.lab.hear(node)

    def _elect(self) -> None:
        state = self.lab.state()
        able = [
            member
            for member, epoch in zip(state.in_sync_replicas, state.in_sync_epochs, strict=True)
            if member in self.live() and self.lab.epoch_of(member) == epoch
        ]
        if able:
            self.lab.elect(self.chance.choice(able))

    def _lose(self) -> None:
        self.lab.lose = self.chance.choice([0.0, 0.0, 0.1, 0.5])

    # What must hold

    def leads(self, node: int) -> bool:
        replica = self.lab.broker(node).partitions.get(KEY)
        return replica is not None and replica.is_leader

    def batches(self, node: int, upper: int | None = None) -> dict[int, bytes]:
        data = self.lab.content(node, upper)
        return {header.base_offset: data[at : at + header.size_bytes] for at, header in read_batches(data)}

    def values(self, node: int) -> dict[int, bytes]:
        return {
            record.offset: bytes(record.value or b"")
            for batch in self.batches(node).values()
            for record in read_records(batch, BATCH_BYTES_MAX)
        }

    def look(self) -> None:
        self._collect()
        for node in self.live():
            replica = self.lab.broker(node).partitions.get(KEY)
            if replica is not None:
                for offset, batch in self.batches(node, replica.high_watermark).items():
                    assert self.committed.setdefault(offset, batch) == batch, f"offset {offset} changed on {node}"
        if (leader := self.lab.state().leader) in self.live() and self.leads(leader):
            held = self.batches(leader)
            missing = [offset for offset, batch in self.committed.items() if held.get(offset) != batch]
            assert not missing, f"{leader} leads without the committed offsets {missing}"

    def _collect(self) -> None:
        waiting = []
        for value, answer in self.waiting:
            if isinstance(answer, Deferred) and not answer.done:
                waiting.append((value, answer))
                continue
            response = answer.response if isinstance(answer, Deferred) else answer
            found = response.responses[0].partition_responses[0]
            if found.error_code == 0:
                assert found.base_offset not in self.acknowledged
                self.acknowledged[found.base_offset] = value
        self.waiting = waiting

    def heal(self) -> None:
        self.lab.cut.clear()
        self.lab.lose = 0.0
        self._hear()
        self._restart()
        for _ in range(4):
            self.lab.run(3000)
            self._hear()
            self.reconcile()
        self.look()

    def check_healed(self) -> None:
        state = self.lab.state()
        assert sorted(state.in_sync_replicas) == [1, 2, 3]
        answer = self.lab.produce(int(state.leader), b"last")
        self.lab.run(2000)
        assert answer.response.responses[0].partition_responses[0].error_code == 0
        contents = {node: self.lab.content(node) for node in (1, 2, 3)}
        assert contents[1] == contents[2] == contents[3]
        values = self.values(int(state.leader))
        for offset, value in self.acknowledged.items():
            assert values.get(offset) == value, f"offset {offset} had {value!r} and has {values.get(offset)!r}"
        epochs = {node: self.lab.replica(node).log.epochs.entries for node in (1, 2, 3)}
        assert epochs[1] == epochs[2] == epochs[3]


def run(seed: int, steps: int, *, flush: bool = False) -> Model:
    model = Model(seed, flush=flush)
    for _ in range(steps):
        model.step()
    model.heal()
    model.check_healed()
    return model


@given(st.integers(0, 1 << 32), st.booleans())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_replicas_agree_and_nothing_acknowledged_is_lost(seed: int, flush: bool) -> None:
    run(seed, 120, flush=flush)


def test_there_is_something_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is worth nothing if hardly anything is acknowledged, or nobody ever truncates."""
    truncate, cut = Log.truncate_to, []

    def counted(log: Log, offset: int) -> None:
        before = log.log_end_offset
        truncate(log, offset)
        if log.log_end_offset < before:
            cut.append(before - log.log_end_offset)

    monkeypatch.setattr(Log, "truncate_to", counted)
    for seed in range(4):
        assert len(run(seed, 200).acknowledged) > 10, seed
    assert len(cut) >= 4
