"""Members of a group that goes from one protocol to the other and back: classic ones that stay, and one of KIP-848 that
comes and goes.

With the first member of the consumer protocol the group becomes a consumer group, and its classic members are served
there; with the last one it is a classic group again. Whoever coordinates, a partition has one owner at a time: a member
counts as one no longer than a session after the last request that was answered, and gives up everything when it joins
again.
"""

from struct import Struct
from typing import Final

from headwater.base.errors import ErrorCode
from headwater.coordinator.groups.consumer import embedded
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.consumer_members import FIRST_KNOWING_GROUPS, OUT, ConsumerMember
from headwater.sim.clients.coordinated import GROUP
from headwater.sim.clients.members import REBALANCE_MS, SESSION_MS, ClassicMember
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_SUBSCRIPTION_VERSIONS: Final = (0, 1)


class ConvertingMember(ClassicMember):
    """Its subscription and its assignments are those of the embedded consumer protocol, which a coordinator can
    read.
    """

    def _join(self) -> Steps:
        self._give_up()
        topic, _ = self.world.inputs()[0]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self._subscription(topic.name))],
        )
        return (yield from self.join_with(request))

    def _subscription(self, topic: str) -> bytes:
        version, name = self.random.choice(_SUBSCRIPTION_VERSIONS), topic.encode()
        data = _INT16.pack(version) + _INT32.pack(1) + _INT16.pack(len(name)) + name + _INT32.pack(-1)
        return data if version == 0 else data + _INT32.pack(0)  # it owns nothing any more

    def _sync(self, joined: JoinGroupResponse) -> Steps:
        topic, _ = self.world.inputs()[0]
        assignments = []
        if joined.leader == self.member_id:
            members = sorted(member.member_id for member in joined.members)
            shares: dict[str, list[int]] = {member: [] for member in members}
            for index in range(len(self.world.inputs())):
                shares[members[index % len(members)]].append(index)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=_assignment(topic.name, share))
                for member, share in shares.items()
            ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        sent_ms = self.asks()
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return False
        if answer.error_code:
            self._refused(answer.error_code)
            return False
        self.owned = [index for _, index in embedded.read_assignment(bytes(answer.assignment)).partitions]
        self.claim(sent_ms)
        return True

    def _heartbeat(self) -> Steps:
        sent_ms = self.asks()
        code = yield from super()._heartbeat()
        if code == 0:
            self.claim(sent_ms)
        return code

    def _leave(self) -> Steps:
        self._give_up()
        yield from super()._leave()

    def _refused(self, code: int) -> None:
        super()._refused(code)
        if code != ErrorCode.REBALANCE_IN_PROGRESS:  # it is out; else it may finish what it does before it joins again
            self._give_up()

    def _give_up(self) -> None:
        self.owned = []
        self.world.groups.release(self.group, self.name, set())

    def asks(self) -> int:
        """Now, with something whose answer says that it is still the owner."""
        return self.world.clock.monotonic_ms()

    def claim(self, sent_ms: int) -> None:
        now_ms = self.world.clock.monotonic_ms()
        self.world.groups.claim(self.group, self.name, set(self.owned), sent_ms + SESSION_MS, now_ms)


class VisitingMember(ConsumerMember):
    """Of the consumer protocol: it stays for a while, and then for a while it is away. If its session ended, the group
    may be a classic one.
    """

    out = (*OUT, ErrorCode.GROUP_ID_NOT_FOUND)

    def script(self) -> Script:
        yield from self.topics_made()
        yield from self.find(self.group, GROUP)
        while not self.is_stopping:
            yield self.random.choice((100, 600, 2000))
            self._begin()
            yield from self._stay()
            yield from self._leave()

    def _stay(self) -> Steps:
        for _ in range(self.random.randint(2, 12)):
            if self.is_stopping:
                return
            yield from self.heartbeat()
            yield self.random.choice((50, 200, 300))
            if self.owned and self.generation > 0 and self.random.random() < 0.3:
                yield from self.commit(FIRST_KNOWING_GROUPS)


def _assignment(topic: str, share: list[int]) -> bytes:
    name = topic.encode()
    if not share:
        return _INT16.pack(0) + _INT32.pack(0) + _INT32.pack(-1)
    head = _INT16.pack(0) + _INT32.pack(1) + _INT16.pack(len(name)) + name + _INT32.pack(len(share))
    return head + b"".join(map(_INT32.pack, share)) + _INT32.pack(-1)
