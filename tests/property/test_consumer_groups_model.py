"""A consumer group and clients of both protocols that join, leave, crash, lag and lose answers, under a clock that the
test moves.

Always: no partition is with two members, a client that is a member uses nothing but what the coordinator thinks it has,
and a coordinator that was loaded from the log knows what the old one knew. At the end, when everyone behaves: every
partition is read by exactly one client.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import Ticket
from headwater.coordinator.groups.consumer import embedded
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.wire.messages.sync_group import SyncGroupRequestAssignment
from unit.coordinator.consumer.consumer_group_support import Shard, classic_assignment, durable, topic_id

SUBSCRIPTIONS = st.sampled_from([(["t"], None), (["t", "u"], None), (["u"], None), ([], "t|v"), (["u"], "v.*")])
Name = tuple[str, int]


@dataclass
class Client:
    """As the Java consumer does it: it gives up first, says so, and takes what is new after that."""

    name: str
    topics: list[str]
    regex: str | None = None
    instance_id: str | None = None
    classic: bool = False
    member_id: str = ""
    epoch: int = 0  # or generation
    uses: set[Name] = field(default_factory=set)
    told: set[Name] | None = None  # an assignment that it has not carried out yet
    crashed: bool = False
    incarnation: int = 0
    must_join: bool = True
    missed_an_answer: bool = False  # then it says everything again, and hears everything
    waits_to_join: Ticket | None = None
    waits_to_sync: Ticket | None = None

    def drop_everything(self) -> None:
        self.uses, self.told = set(), None
        self.epoch, self.must_join = 0, True
        self.waits_to_join = self.waits_to_sync = None


class ConsumerGroupModel(RuleBasedStateMachine):
    @initialize(interval_ms=st.sampled_from([0, 1_000]), policy=st.sampled_from(["bidirectional", "upgrade"]))
    def begin(self, interval_ms: int, policy: str) -> None:
        self.shard = Shard(
            {"t": 3, "u": 2}, consumer_assignment_interval_ms=interval_ms, consumer_migration_policy=policy
        )
        self.clients: list[Client] = []
        self.made = 0

    # What clients do

    @precondition(lambda self: len(self.clients) < 5)
    @rule(subscription=SUBSCRIPTIONS, static=st.booleans())
    def new_client(self, subscription: tuple[list[str], str | None], static: bool) -> None:
        topics, regex = subscription
        self.made += 1
        name = f"c{self.made}"
        self.clients.append(Client(name, topics, regex, f"i-{name}" if static else None, member_id=f"{name}.0"))
        self.step(self.clients[-1])

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=st.sampled_from([["t"], ["u"], ["t", "u"]]))
    def new_classic_client(self, topics: list[str]) -> None:
        self.made += 1
        self.clients.append(Client(f"k{self.made}", topics, classic=True))
        self.step(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, lost: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        if not client.crashed:
            self.step(client, lost=lost and not client.classic)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        self._carry_out(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def subscribe(self, data: st.DataObject, subscription: tuple[list[str], str | None]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        if client.crashed or client.classic or client.must_join:
            return
        client.topics, client.regex = subscription
        self._beat(client, subscribes=True)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self._stop(client)
        if client.classic:
            self.shard.leave(client.member_id)
        elif for_a_while and client.instance_id is not None:
            self.shard.beat(client.member_id, -2, instance_id=client.instance_id)
            return  # it is still in the list, and may come back
        else:
            self.shard.beat(client.member_id, -1, instance_id=client.instance_id)
        self.clients.remove(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self._stop(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: any(client.crashed for client in self.clients))
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.crashed]))
        client.crashed = False
        client.incarnation += 1
        client.member_id = "" if client.classic else f"{client.name}.{client.incarnation}"

    @staticmethod
    def _stop(client: Client) -> None:
        client.drop_everything()
        client.crashed = True

    # What happens around them

    @rule(by_ms=st.sampled_from([1, 500, 5_000, 20_000, 46_000]))
    def time_passes(self, by_ms: int) -> None:
        self.shard.advance(by_ms)

    @rule(t=st.integers(0, 2), v=st.booleans())
    def topics_change(self, t: int, v: bool) -> None:
        counts = {"t": max(3 + t, self.shard.state.topics.counts["t"]), "u": 2} | ({"v": 2} if v else {})
        self.shard.change_topics(**counts)

    @rule(data=st.data(), without_tombstones=st.booleans())
    def coordinator_moves(self, data: st.DataObject, without_tombstones: bool) -> None:
        """To a log of which a part was compacted. Those who waited
        for an answer in a classic group are to try again.
        """
        waiting = {ticket for client in self.clients for ticket in (client.waits_to_join, client.waits_to_sync)}
        cut = data.draw(st.integers(0, len(self.shard.log)))
        last = {record.key: place for place, record in enumerate(self.shard.log[:cut])}
        log = [
            record
            for place, record in enumerate(self.shard.log)
            if place >= cut or (last[record.key] == place and not (without_tombstones and record.value is None))
        ]
        moved = self.shard.reloaded(log)
        if isinstance(self.shard.state.groups.get("g"), ConsumerGroup):
            assert durable(moved) == durable(self.shard)
        moved.answers = {ticket: answer for ticket, answer in self.shard.answers.items() if ticket in waiting}
        self.shard = moved
        for client in self.clients:
            if (client.waits_to_join or client.waits_to_sync) not in moved.answers:
                client.waits_to_join = client.waits_to_sync = None

    # The consumer protocol

    def step(self, client: Client, *, lost: bool = False) -> None:
        if client.classic:
            self._classic_step(client)
        else:
            self._beat(client, subscribes=client.must_join or client.missed_an_answer, lost=lost)

    def _beat(self, client: Client, *, subscribes: bool, lost: bool = False) -> None:
        fields: dict[str, Any] = {"instance_id": client.instance_id}
        if subscribes:
            fields |= {
                "topics": client.topics,
                "subscribed_topic_regex": client.regex or "",
                "rebalance_timeout_ms": 20_000,
            }
        response = self.shard.beat(client.member_id, client.epoch, owned=sorted(client.uses), **fields)
        client.missed_an_answer = lost
        if lost:
            return
        if response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if response.error_code:
            assert response.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), response
            client.drop_everything()
            return
        client.epoch, client.must_join = response.member_epoch, False
        if response.assignment is not None:
            names = {topic_id(name): name for name in ("t", "u", "v")}
            client.told = {
                (names[topic.topic_id], partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            }

    @staticmethod
    def _carry_out(client: Client) -> None:
        if client.told is None:
            return
        if client.uses - client.told:
            client.uses &= client.told  # the next heartbeat says so, and only after that comes what is new
        else:
            client.uses, client.told = client.told, None

    # The classic protocol, eager: everything is dropped before a join

    def _classic_step(self, client: Client) -> None:
        if client.waits_to_join is not None:
            self._joined(client, self.shard.answers.pop(client.waits_to_join, None))
        elif client.waits_to_sync is not None:
            self._synced(client, self.shard.answers.pop(client.waits_to_sync, None))
        elif client.must_join:
            client.uses = set()
            response = self.shard.join(client.member_id, client.topics, rebalance_timeout_ms=20_000)
            client.waits_to_join = self.shard.waiting
            self._joined(client, response)
        else:
            code = self.shard.classic_beat(client.member_id, client.epoch).error_code
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                client.uses, client.must_join = set(), True
            elif code:
                self._lose_membership(client, code)

    def _joined(self, client: Client, response: Any) -> None:
        if response is None:
            return
        client.waits_to_join = None
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code:
            self._lose_membership(client, response.error_code)
        else:
            client.member_id, client.epoch, client.must_join = response.member_id, response.generation_id, False
            synced = self.shard.sync(client.member_id, client.epoch, assignments=self._assign(client, response))
            client.waits_to_sync = self.shard.waiting
            self._synced(client, synced)

    def _assign(self, client: Client, response: Any) -> list[SyncGroupRequestAssignment]:
        """Round robin over those who want the topic; only in a classic group, where this client leads."""
        if response.leader != client.member_id:
            return []
        topics = self.shard.state.topics
        shares: dict[str, list[tuple[bytes, int]]] = {member.member_id: [] for member in response.members}
        for name, count in topics.counts.items():
            wanting = [
                member.member_id
                for member in response.members
                if name in embedded.read_subscription(member.metadata).topics
            ]
            for partition in range(count if wanting else 0):
                shares[wanting[partition % len(wanting)]].append((topics.ids[name], partition))
        return [
            SyncGroupRequestAssignment(member_id=id_, assignment=embedded.write_assignment(share, topics, 1))
            for id_, share in shares.items()
        ]

    def _synced(self, client: Client, response: Any) -> None:
        if response is None:
            return
        client.waits_to_sync = None
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            client.must_join = True
        elif response.error_code:
            self._lose_membership(client, response.error_code)
        else:
            client.uses = set(classic_assignment(response.assignment))

    @staticmethod
    def _lose_membership(client: Client, code: int) -> None:
        known = (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.GROUP_ID_NOT_FOUND,
        )
        assert code in known, ErrorCode(code)
        client.drop_everything()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""

    # What must hold

    @invariant()
    def one_owner(self) -> None:
        if not isinstance(group := self.shard.state.groups.get("g"), ConsumerGroup):
            return
        owned = [partition for member in group.members.values() for partition in member.owned]
        assert len(owned) == len(set(owned))
        assert group.owners == {each: member.member_id for member in group.members.values() for each in member.owned}
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is not None and not client.crashed:
                assert {(topic_id(name), partition) for name, partition in client.uses} <= member.owned, client

    @invariant()
    def a_loaded_coordinator_knows_the_same(self) -> None:
        group = self.shard.state.groups.get("g")
        if isinstance(group, ConsumerGroup):
            assert durable(self.shard.reloaded()) == durable(self.shard)

    @invariant()
    def nobody_is_kept_who_is_not_waited_for(self) -> None:
        group = self.shard.state.groups.get("g")
        if isinstance(group, ConsumerGroup):
            for member_id in group.members:
                assert ("consumer", "session", "g", member_id) in self.shard.timers

    def teardown(self) -> None:
        if not hasattr(self, "shard"):
            return
        self.clients = [client for client in self.clients if not client.crashed]
        for _ in range(40):
            for client in self.clients:
                for _ in range(3):
                    self.step(client)
                    self._carry_out(client)
            self.shard.advance(3_000)
        uses = [partition for client in self.clients for partition in client.uses]
        assert len(uses) == len(set(uses))
        counts = self.shard.state.topics.counts
        wanted = {
            (name, partition)
            for client in self.clients
            for name, count in counts.items()
            if name in client.topics or (client.regex and client.regex.replace("v.*", "v").find(name) >= 0)
            for partition in range(count)
        }
        assert set(uses) == wanted, self.clients
        if isinstance(group := self.shard.state.groups.get("g"), ConsumerGroup) and group.members:
            assert group.state_name == "Stable"


TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
