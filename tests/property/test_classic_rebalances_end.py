"""Classic groups under members that fall silent: no rebalance lasts longer than it may, and whoever asked is answered.

Members come, join again, sync, send heartbeats, leave and are killed, in any order and with any time in between; the
coordinator is loaded anew. A killed one sends nothing more, and nobody tells the coordinator: only its timers do. A
stubborn one lives, and sends heartbeats, but does not join again or never syncs: a client whose application hangs.

- A rebalance waits for joins no longer than the longest rebalance timeout among its members (the first one of a group:
  no longer than that or its delay), and then as long for syncs. Static members are not put out at that: they are waited
  for until their session ends, counted from the last word of any of them.
- A request is answered within the same time.
- When all are silent, the group is empty after that, and nothing is left of it but its timers of offsets.
"""

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.classic.join import NEW_MEMBER_TIMEOUT_MS
from headwater.coordinator.groups.context import GroupSettings
from unit.coordinator.groups.support.driver import GROUP, Call, FakeTopics, World

INITIAL_DELAY_MS = 1_000
SESSIONS_MS = [6_000, 10_000, 45_000]
REBALANCES_MS = [500, 20_000, 60_000]
LONGEST_MS = max(REBALANCES_MS) + max(SESSIONS_MS) + INITIAL_DELAY_MS


class WatchedWorld(World):
    """Knows since when the group waits for joins, and since when each request waits."""

    def __init__(self, seed: int) -> None:
        self.preparing: tuple[int, int] | None = None  # generation, since when
        self.waiting: dict[Call, int] = {}
        self.static_word_ms = 0  # when a static member was last heard of
        group_settings = GroupSettings(initial_rebalance_delay_ms=INITIAL_DELAY_MS, group_size_max=5)
        super().__init__(group_settings, FakeTopics({"orders": 1}), seed)

    @property
    def group(self) -> ClassicGroup | None:
        return self.shard.classic.group(GROUP)

    def run(self, effects: Effects) -> Effects:
        super().run(effects)
        self.check()
        return effects

    def owes(self, call: Call) -> None:
        if call.response is None:
            self.waiting[call] = self.now_ms

    def check(self) -> None:
        group = self.group
        if group is None or group.state is not State.PREPARING_REBALANCE:
            self.preparing = None
        elif self.preparing is None or self.preparing[0] != group.generation:
            self.preparing = (group.generation, self.now_ms)
        else:
            self._in_time(self.preparing[1], "a rebalance")
        self.waiting = {call: since_ms for call, since_ms in self.waiting.items() if call.response is None}
        for since_ms in self.waiting.values():
            self._in_time(since_ms, "a request")

    def _in_time(self, since_ms: int, what: str) -> None:
        allowed_ms = max(since_ms, self.static_word_ms) + LONGEST_MS if self.static_word_ms else since_ms
        allowed_ms = max(allowed_ms, since_ms + max(REBALANCES_MS))
        assert self.now_ms <= allowed_ms, f"{what} has lasted for {self.now_ms - since_ms} ms"


@dataclass
class Client:
    version: int
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    joins_again: bool = True
    syncs: bool = True
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    joining: Call | None = None
    syncing: Call | None = None


class RebalancesEnd(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1_000))
    def start(self, seed: int) -> None:
        self.world = WatchedWorld(seed)
        self.clients: list[Client] = []

    # What members do

    @rule(
        version=st.sampled_from([0, 3, 5, 9]),
        instance_id=st.sampled_from([None, None, None, "i", "j"]),
        session_ms=st.sampled_from(SESSIONS_MS),
        rebalance_ms=st.sampled_from(REBALANCES_MS),
        stubborn=st.sampled_from(["", "", "joins_again", "syncs"]),
    )
    def come(self, version: int, instance_id: str | None, session_ms: int, rebalance_ms: int, stubborn: str) -> None:
        if version == 0:
            rebalance_ms = session_ms  # it cannot say more
        client = Client(version, instance_id if version >= 5 else None, session_ms, rebalance_ms)
        if stubborn:
            setattr(client, stubborn, False)
        self.clients.append(client)
        self._join(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def join_again(self, data: st.DataObject) -> None:
        self._join(self._pick(data))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        self._sync(self._pick(data))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        self._beat(self._pick(data))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self._pick(data)
        self.clients.remove(client)
        if client.member_id:
            self.world.leave(client.member_id)
        self._read_answers()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        self.clients.remove(self._pick(data))

    @rule(seconds=st.sampled_from([1, 2, 4, 100]))
    def live(self, seconds: int) -> None:
        """All who are left do what clients do: left to chance alone, groups would rarely be stable."""
        for _ in range(seconds):
            self._live()

    @rule(version=st.sampled_from([3, 9]))
    def live_in_a_crowd(self, version: int) -> None:
        """Others come all the time, and die at once."""
        for _ in range(20):
            self.world.owes(self.world.join("", version=version, session_ms=SESSIONS_MS[0]))
            for _ in range(5):
                self._live()

    def _live(self) -> None:
        for client in self.clients:
            if client.generation < 0 and client.joining is None:
                self._join(client)
            self._beat(client)
        self.world.advance(1_000)
        self._read_answers()
        for client in sorted(self.clients, key=lambda client: client.leads):
            if client.syncing is None and client.syncs:
                self._sync(client)

    # Time, and the coordinator

    @rule(delta_ms=st.sampled_from([1, 500, 1_000, 5_999, 10_000, 30_000]))
    def wait(self, delta_ms: int) -> None:
        self.world.advance(delta_ms)
        self._read_answers()

    @rule()
    def reload(self) -> None:
        self.world.reload()
        self._read_answers()

    @rule()
    def all_fall_silent(self) -> None:
        """A rebalance for joins, one for syncs, and the one that follows it; or the sessions of those that are left."""
        self.clients.clear()
        self.world.advance(4 * LONGEST_MS + NEW_MEMBER_TIMEOUT_MS)
        assert not self.world.waiting
        assert self.world.state() in ("Empty", "Dead")
        group = self.world.group
        assert group is None or not (group.members or group.pending_joins or group.pending_syncs)
        assert not any(key[0] == "classic" for key in self.world.timers if isinstance(key, tuple))

    @invariant()
    def all_is_in_time(self) -> None:
        self.world.check()

    # Inside

    def _pick(self, data: st.DataObject) -> Client:
        return data.draw(st.sampled_from(self.clients))

    def _heard_of(self, client: Client) -> None:
        if client.instance_id is not None:
            self.world.static_word_ms = self.world.now_ms

    def _join(self, client: Client) -> None:
        self._heard_of(client)
        client.joining = self.world.join(
            client.member_id,
            version=client.version,
            instance_id=client.instance_id,
            session_ms=client.session_ms,
            rebalance_ms=client.rebalance_ms,
        )
        self.world.owes(client.joining)
        self._read_answers()

    def _sync(self, client: Client) -> None:
        if client.generation < 0:
            return
        self._heard_of(client)
        client.syncing = self.world.sync(client.member_id, client.generation, {}, instance_id=client.instance_id)
        self.world.owes(client.syncing)
        self._read_answers()

    def _beat(self, client: Client) -> None:
        if client.generation < 0:
            return
        self._heard_of(client)
        code = self.world.heartbeat(client.member_id, client.generation, instance_id=client.instance_id)
        self._heed(client, ErrorCode(code))

    def _heed(self, client: Client, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        if code is ErrorCode.REBALANCE_IN_PROGRESS and not client.joins_again:
            return
        if code is not ErrorCode.NONE:
            client.generation, client.leads = -1, False

    def _read_answers(self) -> None:
        for client in self.clients:
            if client.joining is not None and client.joining.response is not None:
                response, client.joining = client.joining.response, None
                self._heed(client, ErrorCode(response.error_code))
                if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    client.member_id = response.member_id
                if response.error_code == ErrorCode.NONE:
                    client.generation, client.leads = response.generation_id, response.leader == response.member_id
            if client.syncing is not None and client.syncing.response is not None:
                code, client.syncing = ErrorCode(client.syncing.code), None
                self._heed(client, code)


RebalancesEnd.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestRebalancesEnd = RebalancesEnd.TestCase
