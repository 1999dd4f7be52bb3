"""Random lives of classic groups, with simulated time: members that come, stall, restart and leave, commits plain and
transactional, reloads.

After every step:
- a fresh shard that is fed with all records has the same durable state (offsets, and groups wherever they are stable or
  empty);
- whoever has no answer is among the parked ones, so nobody is forgotten;
- I13: committed offsets are what was last committed, and change by nothing else;
- I14: within one generation, a partition has one owner; a commit of another generation than the current one is refused.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import Producer
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.context import GroupSettings
from unit.coordinator.groups.support.driver import Call, FakeTopics, World, subscription

PARTITIONS = [("orders", 0), ("clicks", 0)]  # few, so that commits meet
GROUPS = ["a", "b"]
SOME_GROUP = st.sampled_from(["a", "a", "a", "b"])  # most happens in one


@dataclass
class Client:
    """A consumer as far as the coordinator sees it: it may send anything it remembers, at any time."""

    group_id: str
    version: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    members: list[str] = field(default_factory=list)  # of the generation, when it leads
    joining: Call | None = None
    syncing: Call | None = None


class ClassicGroupsLife(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1_000))
    def start(self, seed: int) -> None:
        self.world = World(
            GroupSettings(
                initial_rebalance_delay_ms=1_000,
                group_size_max=4,
                offsets_retention_ms=600_000,
                offsets_retention_check_interval_ms=100_000,
            ),
            FakeTopics({"orders": 1, "clicks": 1}),
            seed,
        )
        self.began_ms = self.world.now_ms
        self.clients: list[Client] = []
        self.calls: list[Call] = []
        self.committed: dict[tuple[str, tuple[str, int]], tuple[int, int]] = {}  # -> offset, order of the write
        self.pending: dict[int, dict[tuple[str, tuple[str, int]], tuple[int, int]]] = {}
        self.writes = 0
        self.owners: dict[tuple[str, int, int, bytes], str] = {}  # group, life of it, generation, partition -> member
        self.lives: dict[str, int] = dict.fromkeys(GROUPS, 0)

    # Members

    @rule(
        group_id=SOME_GROUP,
        version=st.sampled_from([0, 3, 5, 9]),
        instance_id=st.sampled_from([None, None, "i", "j"]),
    )
    def come(self, group_id: str, version: int, instance_id: str | None) -> None:
        self.clients.append(Client(group_id, version, instance_id if version >= 5 else None))
        self._join(self.clients[-1])

    @rule(data=st.data(), topics=st.sampled_from([("orders",), ("orders", "clicks")]))
    def join_again(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        client = self._pick(data)
        if client is not None:
            self._join(client, topics)

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        client = self._pick(data)
        if client is not None:
            self._sync(client)

    @rule(group_id=SOME_GROUP, size=st.integers(1, 3), static=st.booleans())
    def work_together(self, group_id: str, size: int, static: bool) -> None:
        """What clients do when nothing is in their way. Left to chance alone, groups would rarely become stable."""
        mine = [client for client in self.clients if client.group_id == group_id][-size:]
        for number in range(size - len(mine)):
            self.clients.append(
                Client(group_id, 9, "ij"[number]) if static and number < 2 else Client(group_id, 3, None)
            )
            mine.append(self.clients[-1])
        for _ in range(2):  # the first time may only get them their ids
            for client in mine:
                if client.joining is None:
                    self._join(client)
        self._advance(3_000)
        for client in sorted(mine, key=lambda client: len(client.members)):
            self._sync(client)

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        client = self._pick(data)
        if client is not None and client.member_id:
            self.world.heartbeat(
                client.member_id, client.generation, instance_id=client.instance_id, group_id=client.group_id
            )

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self._pick(data)
        if client is not None and client.member_id:
            self.world.leave(client.member_id, group_id=client.group_id)
            self._settle()

    @rule(data=st.data(), topics=st.sampled_from([("orders",), ("clicks",)]))
    def restart(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        """Its process is new: it remembers nothing but its instance id."""
        client = self._pick(data)
        if client is not None:
            client.member_id, client.generation, client.members = "", -1, []
            client.joining = client.syncing = None
            self._join(client, topics)

    @rule(data=st.data())
    def leave_while_waiting(self, data: st.DataObject) -> None:
        waiting = [client for client in self.clients if client.member_id and (client.joining or client.syncing)]
        if waiting:
            client = data.draw(st.sampled_from(waiting))
            self.world.leave(client.member_id, group_id=client.group_id)
            self._settle()

    # Offsets

    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 99), stale=st.integers(-1, 1))
    def commit_as_member(self, data: st.DataObject, partition: tuple[str, int], offset: int, stale: int) -> None:
        client = self._pick(data)
        if client is None or client.generation < 0:
            return
        group = self.world.shard.classic.group(client.group_id)
        generation = client.generation + stale
        codes = self.world.commit(
            {partition: offset},
            member_id=client.member_id,
            generation=generation,
            group_id=client.group_id,
            instance_id=client.instance_id,
        )
        if codes == {partition: 0}:
            assert group is not None
            assert generation == group.generation, "a commit of a stale generation was taken"
            assert client.member_id in group.members
            self._wrote(client.group_id, partition, offset)

    @rule(group_id=SOME_GROUP, partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 99))
    def commit_alone(self, group_id: str, partition: tuple[str, int], offset: int) -> None:
        before = self.world.state(group_id)
        codes = self.world.commit({partition: offset}, group_id=group_id)
        assert (codes == {partition: 0}) == (before in ("Empty", "Dead"))
        if codes == {partition: 0}:
            self._wrote(group_id, partition, offset)

    @rule(
        group_id=SOME_GROUP,
        partition=st.sampled_from(PARTITIONS),
        offset=st.integers(0, 99),
        producer_id=st.integers(1, 2),
    )
    def commit_in_transaction(self, group_id: str, partition: tuple[str, int], offset: int, producer_id: int) -> None:
        assert self.world.txn_commit({partition: offset}, Producer(producer_id, 0), group_id=group_id) == [0]
        self.writes += 1
        self.pending.setdefault(producer_id, {})[group_id, partition] = (offset, self.writes)

    @rule(producer_id=st.integers(1, 2), committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.world.end(Producer(producer_id, 0), committed=committed)
        for key, value in self.pending.pop(producer_id, {}).items():
            if committed and self.committed.get(key, (0, 0))[1] < value[1]:
                self.committed[key] = value

    @rule(topic=st.sampled_from(["orders", "clicks"]))
    def delete_topic(self, topic: str) -> None:
        """And make it again at once, under another id."""
        world = self.world
        world.run(world.shard.topic_deleted(topic, world.topics.ids[topic], world.now_ms))
        self._forget(lambda _, partition: partition[0] == topic)

    # The group and the broker

    @rule(group_id=SOME_GROUP)
    def delete_group(self, group_id: str) -> None:
        if self.world.delete(group_id) == 0:
            self._forget(lambda group, _: group == group_id)

    @rule(delta_ms=st.sampled_from([0, 1, 500, 1_000, 9_000, 10_000, 30_000]))
    def wait(self, delta_ms: int) -> None:
        self._advance(delta_ms)

    @rule()
    def wait_past_the_retention(self) -> None:
        self._advance(800_000)

    @rule()
    def reload(self) -> None:
        self.world.reload()
        self._settle()

    # What must hold

    @invariant()
    def the_log_tells_the_same(self) -> None:
        live, replayed = self.world.shard, self.world.replayed()
        assert replayed.offsets.durable() == live.offsets.durable()
        assert set(replayed.state.groups) == set(live.state.groups)
        for group_id, group in live.state.groups.items():
            again = replayed.state.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert isinstance(again, ClassicGroup)
            if group.state in (State.STABLE, State.EMPTY):
                assert again.metadata_value() == group.metadata_value()
                assert (again.state, again.subscribed_topics) == (group.state, group.subscribed_topics)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        parked = {id(ticket) for ticket, _ in self.world.shard.parked()}
        assert {id(call) for call in self.calls if call.response is None} == parked

    @invariant()
    def committed_offsets_are_what_was_committed(self) -> None:
        for group_id in GROUPS:
            expected = {
                partition: value[0] for (group, partition), value in self.committed.items() if group == group_id
            }
            assert self.world.offsets(group_id) == expected

    @invariant()
    def groups_are_well_formed(self) -> None:
        for group in self.world.shard.state.groups.values():
            assert isinstance(group, ClassicGroup)
            assert group.awaiting_join_count == sum(member.is_awaiting_join for member in group.members.values())
            assert group.awaiting_join_count <= self.world.settings.group_size_max
            assert (group.leader_id in group.members) == bool(group.members)
            assert not group.is_empty or not group.members
            assert set(group.static_members.values()) <= set(group.members)
            for member in group.members.values():  # or it could stay for ever
                has_timer = group.session_timer(member.member_id) in self.world.timers
                assert has_timer or not member.may_expire
            waits = {State.PREPARING_REBALANCE: group.join_timer, State.COMPLETING_REBALANCE: group.sync_timer}
            assert group.state not in waits or waits[group.state] in self.world.timers

    # Inside

    def _pick(self, data: st.DataObject) -> Client | None:
        return data.draw(st.sampled_from(self.clients)) if self.clients else None

    def _join(self, client: Client, topics: tuple[str, ...] = ("orders",)) -> None:
        client.joining = self.world.join(
            client.member_id,
            version=client.version,
            instance_id=client.instance_id,
            group_id=client.group_id,
            protocols={"range": subscription(*topics), "sticky": subscription(*topics)},
        )
        self.calls.append(client.joining)
        self._settle()

    def _sync(self, client: Client) -> None:
        if client.generation < 0:
            return
        world = self.world
        assignments = dict.fromkeys(client.members, b"")
        for number, member in enumerate(client.members):  # each partition to one of them
            assignments[member] = bytes(range(number, 4, len(client.members)))
        client.syncing = world.sync(
            client.member_id,
            client.generation,
            assignments,
            instance_id=client.instance_id,
            group_id=client.group_id,
        )
        self.calls.append(client.syncing)
        self._settle()

    def _settle(self) -> None:
        """Clients read their answers."""
        for client in self.clients:
            if client.joining is not None and client.joining.response is not None:
                response, client.joining = client.joining.response, None
                if response.error_code == 0:
                    client.member_id, client.generation = response.member_id, response.generation_id
                    client.members = [member.member_id for member in response.members]
                elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    client.member_id = response.member_id
                elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
                    client.member_id, client.generation = "", -1
            if client.syncing is not None and client.syncing.response is not None:
                response, client.syncing = client.syncing.response, None
                if response.error_code == 0:
                    self._owns(client, response.assignment)
        self.calls = [call for call in self.calls if call.response is None]

    def _owns(self, client: Client, assignment: bytes) -> None:
        """A static member's successor goes on with what its predecessor had: the instance is the owner."""
        for number in assignment:
            key = (client.group_id, self.lives[client.group_id], client.generation, bytes([number]))
            owner = client.instance_id or client.member_id
            assert self.owners.setdefault(key, owner) == owner, "two owners in one generation"

    def _wrote(self, group_id: str, partition: tuple[str, int], offset: int) -> None:
        self.writes += 1
        self.committed[group_id, partition] = (offset, self.writes)

    def _forget(self, which) -> None:  # type: ignore[no-untyped-def]
        for table in (self.committed, *self.pending.values()):
            for key in [key for key in table if which(*key)]:
                del table[key]
        self.pending = {producer_id: table for producer_id, table in self.pending.items() if table}
        for group_id in GROUPS:
            if group_id not in self.world.shard.state.groups:
                self.lives[group_id] += 1

    def _advance(self, delta_ms: int) -> None:
        """Time may take offsets; which ones is for unit tests. Here: none before the retention, and none that is
        pending.
        """
        self.world.advance(delta_ms)
        self._settle()
        for group_id, partition in list(self.committed):
            if partition not in self.world.offsets(group_id):
                assert self.world.now_ms - self.began_ms >= self.world.settings.offsets_retention_ms
                assert not any((group_id, partition) in table for table in self.pending.values())
                del self.committed[group_id, partition]
        self._forget(lambda *_: False)


ClassicGroupsLife.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestClassicGroupsLife = ClassicGroupsLife.TestCase
