"""Makes faults happen in a cluster, one after the other, as the seed decides, and mends them again.

What was acknowledged with acks=all is promised as long as one in-sync replica keeps its unflushed bytes. So the power
is lost only where every partition (but those with flush.messages=1) has another member that runs and is well, and that
nobody is about to leave out of the in-sync replicas; and until the members that lost their bytes are out of the in-sync
replicas, the others are left in peace: were they dead too, or seemed so, nobody could tell which of them has
everything. Owned by the world.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import PartitionKey, TopicId
from headwater.sim.cluster_history import has_wide_gaps
from headwater.sim.cluster_node import DIRECTORIES
from headwater.sim.cluster_state import Member, TrueState
from headwater.sim.disk import UNLIMITED
from headwater.sim.gaps import go_on_further
from headwater.sim.strikes import Strikes
from headwater.sim.trace import Violation
from headwater.sim.zookeeper import DELAY_MS as ZOOKEEPER_DELAY_MS

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld
    from headwater.sim.cluster_node import ClusterNode

_HOUR_MS: Final = 3_600_000
_NORMAL_DELAY_MS: Final = (0, 3)
_RECOVERY_MS: Final = 800
_LOOK_AGAIN_MS: Final = 50
_LOOKS_MAX: Final = 40


class ClusterInjector:
    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self._dead_up_to: dict[int, int] = {}  # node -> broker epochs up to here are of processes that died
        self._lost_up_to: dict[int, int] = {}  # node -> broker epochs up to here lost bytes
        self._busy: set[int] = set()  # nodes that are down or on their way
        self._failed_syncs: set[int] = set()  # nodes whose machine is about to start again for it
        self._stopping: set[int] = set()  # cleanly: they leave the in-sync replicas as soon as a controller hears of it
        self._well_from_ms: dict[
            int, int
        ] = {}  # when a node that was cut off or stood still is sure to have a session again
        faults = world.faults
        kinds: dict[Callable[[], None], int] = {
            self._kill: faults.kill,
            self._lose_power: faults.power_loss,
            self._restart_cleanly: faults.clean_restart,
            self._set_clock: faults.clock_jump,
            self._slow_disk: faults.slow_disk,
            self._fill_disk: faults.disk_full,
            self._fail_sync: faults.failed_sync,
            self._pause: faults.pause,
            self._partition: faults.partition,
            self._cut_from_zookeeper: faults.cut_from_zookeeper,
            self._cut_from_followers: faults.cut_from_followers,
            self._lose_session: faults.session_lost,
            self._zookeeper_away: faults.zookeeper_away,
            self._widen_gap: faults.wide_gap,
            self._fail_directory: faults.directory,
            self._slow_zookeeper: faults.slow_zookeeper,
        }
        self.strikes = Strikes(world, kinds)
        self._later = self.strikes.later

    def start(self) -> None:
        self.strikes.start()

    def end(self) -> None:
        """No more faults; what is broken is mended or about to be."""
        self.strikes.is_over = True
        self._world.network.free()
        for node in self._world.nodes:
            self._world.let_to_zookeeper(node)
            node.disk_delay_ms = _NORMAL_DELAY_MS
            self._disk_mended(node)
            node.disk.faults.syncs_to_fail = 0
            if node.is_paused:
                node.resume()
            self._world.set_clock(node.node_id, node.clock, 0)
        if not self._world.zookeeper.is_up:
            self._world.zookeeper.resume()
        self._zookeeper_quick()

    def _some_node(self) -> "ClusterNode":
        return self.strikes.chance.choice(self._world.nodes)

    def _up_node(self) -> "ClusterNode | None":
        up = [node for node in self._world.nodes if node.is_up and node.node_id not in self._busy]
        return self.strikes.chance.choice(up) if up else None

    # Processes

    def _kill(self) -> None:
        node = self._up_node()
        if node is not None and self._may_be_missed(node):
            self._world.note(f"fault: {node.node_id} killed")
            self._dead_up_to[node.node_id] = self._world.zookeeper.last_transaction
            node.kill()
            self._down(node)

    def _lose_power(self) -> None:
        node = self._some_node()
        if not self._may_lose_power(node) or (node.is_up and node.node_id in self._busy):
            return
        was_up = node.is_up
        self._cut_power(node)
        if was_up:
            self._down(node)

    def _cut_power(self, node: "ClusterNode") -> None:
        self._world.note(f"fault: {node.node_id} loses power")
        self._dead_up_to[node.node_id] = self._lost_up_to[node.node_id] = self._world.zookeeper.last_transaction
        node.lose_power()

    def _restart_cleanly(self) -> None:
        node = self._up_node()
        if node is None or not node.is_serving or node.is_paused or not self._may_be_missed(node):
            return
        self._world.note(f"fault: clean restart of {node.node_id}")
        self._busy.add(node.node_id)
        self._stopping.add(node.node_id)
        node.stop_cleanly(lambda: self._down(node))

    def _down(self, node: "ClusterNode") -> None:
        self._world.broker_died()
        self._busy.add(node.node_id)
        self._later((5, 2000) if self.strikes.chance.random() < 0.5 else (5, 250), lambda: self._come_up(node))

    def _come_up(self, node: "ClusterNode") -> None:
        self._world.note(f"node {node.node_id} starts")
        self._busy.discard(node.node_id)
        self._stopping.discard(node.node_id)
        is_full = _is_full(node)
        if not node.start():
            if is_full:
                self._down(node)
                return
            raise Violation(f"I16: node {node.node_id} does not start, and nothing is wrong with its disk")

    def _pause(self) -> None:
        node = self._up_node()
        if node is None or node.is_paused or not self._may_be_missed(node):
            return
        pause_ms = self.strikes.chance.choice((100, 500, 1200, 2500))
        self._is_unwell_for(node, pause_ms)
        self._world.note(f"fault: {node.node_id} stands still for {pause_ms} ms")
        node.pause()
        lives = node.lives
        self._world.heap.call_later(pause_ms, lambda: self._go_on(node, lives))

    def _go_on(self, node: "ClusterNode", lives: int) -> None:
        if node.is_paused and node.lives == lives:
            self._world.note(f"node {node.node_id} goes on")
            node.resume()

    # What was lost

    def is_tainted(self, member: Member) -> bool:
        return member.epoch <= self._lost_up_to.get(member.node_id, -2)

    def _is_unwell_for(self, node: "ClusterNode", time_ms: int) -> None:
        until_ms = self._world.clock.monotonic_ms() + time_ms + _RECOVERY_MS
        self._well_from_ms[node.node_id] = max(until_ms, self._well_from_ms.get(node.node_id, 0))

    def _may_be_missed(self, node: "ClusterNode") -> bool:
        """Not while its word stands against that of one that lost bytes."""
        return not any(
            self.is_tainted(member)
            for state in self._at_stake(node)
            for member in state.members
            if member.node_id != node.node_id
        )

    def _may_lose_power(self, node: "ClusterNode") -> bool:
        return all(self._has_other(state, node.node_id) for state in self._at_stake(node))

    def _may_lose_disk(self, node: "ClusterNode") -> bool:
        """It goes on, and gives up what it leads: nobody who is to take over may leave the in-sync replicas first, as
        one does that is sent records and has no room for them.
        """
        return self._may_lose_power(node) and not any(
            _is_full(self._world.node(member.node_id))
            for state in self._at_stake(node)
            for member in state.members
            if member.node_id != node.node_id
        )

    def _has_other(self, state: TrueState, node_id: int) -> bool:
        """And keeps it: while a change is under way, nobody knows who will be in sync in a moment."""
        key = PartitionKey(TopicId(state.topic_id), state.partition)
        if any(each.proposals.is_under_way(key) for each in self._world.nodes):
            return False
        others = [member for member in state.members if member.node_id != node_id]
        return bool(others) and all(not self.is_tainted(member) and self._runs_since(member) for member in others)

    def _runs_since(self, member: Member) -> bool:
        """The process that became in sync under this epoch, or one that came after it cleanly, runs still,
        and goes on.
        """
        registered = self._world.state.registration(member.node_id)
        return (
            self._world.node(member.node_id).is_up
            and member.node_id not in self._stopping
            and self._world.clock.monotonic_ms() >= self._well_from_ms.get(member.node_id, 0)
            and registered is not None
            and member.epoch in registered
            and registered[0] > self._dead_up_to.get(member.node_id, -1)
        )

    def _at_stake(self, node: "ClusterNode") -> list[TrueState]:
        return [
            state
            for state in self._world.state.partitions.values()
            if node.node_id in state.in_sync and not self._world.needs_no_care(state.topic)
        ]

    # Machines

    def _set_clock(self) -> None:
        node = self._some_node()
        skew_ms = self.strikes.chance.choice((0, 0, -_HOUR_MS // 2, _HOUR_MS // 2, -2 * _HOUR_MS, 2 * _HOUR_MS))
        self._world.note(f"fault: the clock of {node.node_id} is {skew_ms} ms off")
        self._world.set_clock(node.node_id, node.clock, skew_ms)

    def _slow_disk(self) -> None:
        node = self._some_node()
        self._world.note(f"fault: {node.node_id} has a slow disk")
        node.disk_delay_ms = (20, 150)
        self._later((200, 1200), lambda: setattr(node, "disk_delay_ms", _NORMAL_DELAY_MS))

    def _fill_disk(self) -> None:
        """Not beside one that has failed: who takes over from that must not be out of sync for want of room before."""
        node = self._some_node()
        if any(other.has_failed_directory for other in self._world.nodes if other is not node):
            return
        self._world.note(f"fault: the disk of {node.node_id} is full")
        node.disk.faults.free_bytes = self.strikes.chance.randint(0, 2500)
        self._later((100, 1000), lambda: self._disk_mended(node))

    def _fail_sync(self) -> None:
        """Pages that look written and are not are gone with the next power loss: so the machine starts again, some time
        after its broker has given up. What may be lost is lost when the fsync fails, and whether it may be is asked
        then.
        """
        node = self._some_node()
        if not node.is_serving or node.node_id in self._busy or not self._may_lose_power(node):
            return
        self._busy.add(node.node_id)
        faults = node.disk.faults
        faults.syncs_to_fail = self.strikes.chance.randint(1, 2)
        faults.may_fail_sync = lambda: self._may_fail_sync(node)
        self._later((100, 800), lambda: self._after_failed_sync(node))

    def _may_fail_sync(self, node: "ClusterNode") -> bool:
        """One machine at a time: two that come to share a partition later would each wait until the other one is well
        again, for ever.
        """
        if node.node_id not in self._failed_syncs:
            if self._failed_syncs or not node.is_up or not self._may_lose_disk(node):
                return False
            self._world.note(f"fault: fsync fails on {node.node_id}")
            self._failed_syncs.add(node.node_id)
            self._lost_up_to[node.node_id] = self._world.zookeeper.last_transaction
        return True

    def _after_failed_sync(self, node: "ClusterNode", looks: int = 0) -> None:
        """One whose broker goes on although an fsync has failed (of a log that was being deleted) may keep its power.
        One that has lost a directory by it starts again as soon as it can be done without, however long that takes:
        nothing else brings it back.
        """
        node.disk.faults.syncs_to_fail = 0
        has_failed = node.node_id in self._failed_syncs
        must_restart = looks < _LOOKS_MAX or node.has_failed_directory
        if has_failed and node.is_up and not self._may_lose_power(node) and must_restart:
            self._world.heap.call_later(_LOOK_AGAIN_MS, lambda: self._after_failed_sync(node, looks + 1))
            return
        self._busy.discard(node.node_id)
        self._failed_syncs.discard(node.node_id)
        if has_failed and must_restart:
            self._cut_power(node)
            self._down(node)

    def _fail_directory(self) -> None:
        """The other one goes on. What was not synced there is gone when the disk is mended, which takes a restart. The
        broker notices at once: what it acknowledged without a look at the disk, alone in sync, would be lost.
        """
        node = self._some_node()
        if not node.is_serving or node.is_paused or node.node_id in self._busy or not self._may_lose_disk(node):
            return
        directory = self.strikes.chance.choice(DIRECTORIES)
        self._world.note(f"fault: {directory} of {node.node_id} fails")
        self._busy.add(node.node_id)
        self._lost_up_to[node.node_id] = self._world.zookeeper.last_transaction
        node.disk.fail(directory)
        node.notice_failure(directory)
        is_stopped = self.strikes.chance.random() < 0.5
        self._later((300, 2500), lambda: self._mend_directory(node, is_stopped=is_stopped))

    def _mend_directory(self, node: "ClusterNode", *, is_stopped: bool) -> None:
        def mended() -> None:
            self._world.note(f"the disk of {node.node_id} is mended")
            node.disk.mend()
            self._down(node)

        self._dead_up_to[node.node_id] = self._lost_up_to[node.node_id] = self._world.zookeeper.last_transaction
        if is_stopped and node.is_serving and not node.is_paused:
            self._world.note(f"fault: clean restart of {node.node_id}")
            node.stop_cleanly(mended)
        else:
            self._world.note(f"fault: {node.node_id} killed")
            if node.is_up:
                node.kill()
            mended()

    def _disk_mended(self, node: "ClusterNode") -> None:
        node.disk.faults.free_bytes = UNLIMITED

    # Logs

    def _widen_gap(self) -> None:
        found = [
            (key, state)
            for key, state in self._world.state.partitions.items()
            if has_wide_gaps(state.topic) and self._world.catalog.partition(key.topic_id, key.partition) is not None
        ]
        if found:
            key, state = self.strikes.chance.choice(found)
            width = self.strikes.chance.choice((1 << 31, 3 << 31))
            if state.leader > 0 and (node := self._world.node(state.leader)).is_serving:
                node.enter(lambda: self._go_on_further(node, key, width))

    def _go_on_further(self, node: "ClusterNode", key: PartitionKey, width: int) -> None:
        partition = None if node.broker is None else node.broker.partitions.get(key)
        if node.broker is None or partition is None or not partition.is_leader or partition.log.failed is not None:
            return
        log, history = partition.log, self._world.catalog.partition(key.topic_id, key.partition)
        assert history is not None  # what clients have heard of once, they know for ever
        offset, value = log.log_end_offset + width, f"gap:{log.log_end_offset}".encode()
        history.sent(value)
        history.gaps.append((log.log_end_offset, offset))
        self._world.note(f"fault: {partition.log.partition} goes on from {log.log_end_offset} at {offset}")
        try:
            go_on_further(partition, width, value, node.clock.now_ms())
        except (OSError, KafkaError) as problem:
            self._world.note(f"and there is no room for it: {problem}")

    # The network

    def _partition(self) -> None:
        some = self.strikes.chance.sample(
            self._world.node_ids, self.strikes.chance.randint(1, len(self._world.node_ids) // 2)
        )
        rest = [node_id for node_id in self._world.node_ids if node_id not in some]
        pairs = [frozenset((str(one), str(other))) for one in some for other in rest]
        clients = [client.name for client in self._world.clients if self.strikes.chance.random() < 0.5]
        pairs += [frozenset((str(one), client)) for one in some for client in clients]
        self._world.note(f"fault: {some} do not reach {rest}, nor do {clients} reach them")
        self._block(pairs, self._world.node_ids)
        if self.strikes.chance.random() < 0.5:
            for node_id in some:
                if self._may_be_missed(self._world.node(node_id)):
                    self._cut(self._world.node(node_id))

    def _cut_from_followers(self) -> None:
        node = self._some_node()
        self._world.note(f"fault: {node.node_id} is cut from the other brokers")
        pairs = [frozenset((node.place, other.place)) for other in self._world.nodes if other is not node]
        self._block(pairs, self._world.node_ids)

    def _block(self, pairs: list[frozenset[str]], node_ids: list[int]) -> None:
        """Who is refused may be taken for dead: so another one must not lose its power then, nor have lost it just
        before.
        """
        block_ms = self.strikes.chance.randint(100, 2000)
        may_refuse = all(self._may_be_missed(self._world.node(node_id)) for node_id in node_ids)
        refuses = self.strikes.chance.random() < 0.3 and may_refuse
        if refuses:
            self._world.note("and connections are refused there")
            for node_id in node_ids:
                self._is_unwell_for(self._world.node(node_id), block_ms)
        self._world.network.block(pairs, refuses=refuses)
        self._world.heap.call_later(block_ms, lambda: self._world.network.free(pairs))

    # ZooKeeper

    def _cut_from_zookeeper(self) -> None:
        node = self._some_node()
        if self._may_be_missed(node):
            self._world.note(f"fault: {node.node_id} is cut from ZooKeeper")
            self._cut(node)

    def _cut(self, node: "ClusterNode") -> None:
        cut_ms = self.strikes.chance.randint(100, 2000)
        self._is_unwell_for(node, cut_ms)
        self._world.cut_from_zookeeper(node)
        self._world.heap.call_later(cut_ms, lambda: self._world.let_to_zookeeper(node))

    def _lose_session(self) -> None:
        node = self._up_node()
        if node is not None and node.coordination is not None and self._may_be_missed(node):
            self._world.note(f"fault: the session of {node.node_id} expires")
            self._is_unwell_for(node, 0)
            self._world.zookeeper.expire(node.coordination.session_id)

    def _zookeeper_away(self) -> None:
        if self._world.zookeeper.is_up:
            self._world.note("fault: ZooKeeper is away")
            self._world.zookeeper.stop()
            self._later((100, 1500), self._zookeeper_back)

    def _slow_zookeeper(self) -> None:
        """So slow that sessions may end for it."""
        if not all(self._may_be_missed(node) for node in self._world.nodes):
            return
        slow_ms, lasts_ms = self.strikes.chance.choice((50, 300)), self.strikes.chance.randint(200, 2000)
        self._world.note(f"fault: ZooKeeper takes up to {slow_ms} ms")
        for node in self._world.nodes:
            self._is_unwell_for(node, lasts_ms)
        self._world.zookeeper.delay_ms_max = slow_ms
        self._world.heap.call_later(lasts_ms, self._zookeeper_quick)

    def _zookeeper_quick(self) -> None:
        self._world.zookeeper.delay_ms_max = ZOOKEEPER_DELAY_MS

    def _zookeeper_back(self) -> None:
        if not self._world.zookeeper.is_up:
            self._world.note("ZooKeeper is back")
            self._world.zookeeper.resume()


def _is_full(node: "ClusterNode") -> bool:
    return node.disk.faults.free_bytes < UNLIMITED // 2
