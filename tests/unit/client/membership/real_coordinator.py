"""The broker's own group coordinator behind the fake broker: our members and our coordinator, on the test's clock."""

from typing import Any

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket, TimerKey
from headwater.coordinator.groups.consumer.consumer_groups import ConsumerGroups
from headwater.coordinator.groups.context import GroupContext, GroupSettings
from headwater.coordinator.groups.shard import GroupShard
from headwater.sim.scheduler import SimRandom
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest
from headwater.wire.messages.leave_group import LeaveGroupRequest
from headwater.wire.messages.sync_group import SyncGroupRequest
from unit.client.reactor.fakes import HOLD, FakeBroker, FakeWorld, topic_id


class ClusterTopics:
    """The fake cluster's topics, as groups want to see them."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.version = 1

    @property
    def ids(self) -> dict[str, bytes]:
        return {name: topic_id(name) for name in self._world.topics}

    @property
    def names(self) -> dict[bytes, str]:
        return {id_: name for name, id_ in self.ids.items()}

    def partition_count(self, topic: str) -> int | None:
        leaders = self._world.topics.get(topic)
        return None if leaders is None else len(leaders)


class _Call(Ticket):
    __slots__ = ("request", "response")

    def __init__(self, request: Any) -> None:
        super().__init__(None)
        self.request = request
        self.response: Any = None


class RealCoordinator:
    """`reload` plays a coordinator that failed and was loaded again from its log."""

    def __init__(self, world: FakeWorld, broker: FakeBroker, settings: GroupSettings, seed: int) -> None:
        self.world = world
        self.broker = broker
        self.topics = ClusterTopics(world)
        self._settings = settings
        self._random = SimRandom(seed)
        self._log: list[CoordinatorRecord] = []
        self._timers: dict[TimerKey, object] = {}
        self._waiting: list[_Call] = []
        self.shard = self._new_shard()
        self._loaded()
        broker.coordinates()
        for request_type, method in (
            (JoinGroupRequest, "join_group"),
            (SyncGroupRequest, "sync_group"),
            (HeartbeatRequest, "heartbeat"),
            (LeaveGroupRequest, "leave_group"),
            (ConsumerGroupHeartbeatRequest, "consumer_group_heartbeat"),
        ):
            broker.on(request_type, lambda request, method=method: self._handle(method, request))

    def topics_changed(self) -> None:
        self.topics.version += 1
        self._run(self.shard.on_metadata_changed(self.topics, self._now_ms))

    def reload(self) -> None:
        for ticket, make in self.shard.parked():
            self._run(Effects(replies=[(ticket, make(ErrorCode.NOT_COORDINATOR))]))
        self.shard = self._new_shard()
        for record in self._log:
            self.shard.replay(record, None)
        self._timers.clear()
        self._loaded()

    def _loaded(self) -> None:
        self._run(Effects(timers=dict(self.shard.timers_found())))
        self._run(self.shard.loaded(self._now_ms))

    @property
    def _now_ms(self) -> int:
        return round(self.world.now * 1000)

    def _new_shard(self) -> GroupShard:
        return GroupShard(self._settings, self._random, self.topics, lambda state, _: ConsumerGroups(state))

    def _handle(self, method: str, request: Any) -> Any:
        call = _Call(request)
        context = GroupContext(self.broker.request_versions[-1][1], "client", "/127.0.0.1")
        self._run(getattr(self.shard, method)(context, request, call, self._now_ms))
        if call.response is not None:
            return call.response
        self._waiting.append(call)
        return HOLD

    def _run(self, effects: Effects) -> None:
        self._log += effects.records
        for ticket, response in effects.replies:
            assert isinstance(ticket, _Call)
            ticket.response = response
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                held = next(each for each in self.broker.held if each.request is ticket.request)
                self.broker.held.remove(held)
                held.answer(response)
        for key, delay_ms in effects.timers.items():
            self._timers.pop(key, None)
            if delay_ms is not None:
                mark = self._timers[key] = object()
                self.world.later(lambda key=key, mark=mark: self._fire(key, mark), delay_ms / 1000)

    def _fire(self, key: TimerKey, mark: object) -> None:
        if self._timers.get(key) is mark:
            del self._timers[key]
            self._run(self.shard.on_timer(key, self._now_ms))
