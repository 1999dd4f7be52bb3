"""What is true of a cluster's partitions, as ZooKeeper has it, and whether each change of it was allowed.

I9  the leader is in the in-sync replicas
I10 leader epochs only grow, and an epoch has one leader
I11 a controller that was deposed elects nobody any more; a leader may name its successor itself, whoever is controller
I12 a leader from outside the in-sync replicas only where the topic allows it

A replica is in sync under a broker epoch: `Member`. It keeps its bytes unless its machine lost power since; `tainted`
members have lost some, and the world sees to it that another one is there that has not. Owned by the world; knows no
broker.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from headwater.base.ids import PartitionKey, TopicId
from headwater.log.checkpoint import parse_topic_id
from headwater.metadata.cluster import layout
from headwater.sim.trace import Violation
from headwater.sim.zookeeper_tree import Tree

NOBODY = -1


class Member(NamedTuple):
    node_id: int
    epoch: int  # of the broker, when it became in sync


class TrueState(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    members: tuple[Member, ...]
    replicas: tuple[int, ...]
    is_moving: bool
    version: int
    controller_epoch: int
    allows_unclean: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def told(self) -> str:
        members = " ".join(f"{member.node_id}:{member.epoch}" for member in self.members)
        return f"led by {self.leader} in epoch {self.leader_epoch}, in sync {members}, replicas {self.replicas}"

    @property
    def in_sync(self) -> tuple[int, ...]:
        return tuple(member.node_id for member in self.members)


Registration = tuple[int, int]  # epoch, and that of the last life if it ended cleanly


class StateOfCluster:
    def __init__(self, tree: Tree, note: Callable[[str], None] = lambda _text: None) -> None:
        self._tree = tree
        self._note = note
        self._seen: dict[
            str, tuple[int, int, int]
        ] = {}  # path -> (created, version) of the state, version of the topic
        self._paths: dict[str, PartitionKey] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}  # topic id, partition, epoch -> leader
        self.partitions: dict[PartitionKey, TrueState] = {}
        self.counting: dict[PartitionKey, list[int]] = {}  # members that are in sync in this very life
        self._registrations: dict[int, Registration] = {}
        self._controllers: dict[int, int] = {}  # epoch -> session of the controller
        self.leader_changes = 0
        self.unclean_elections = 0

    def look(self) -> None:
        """Called after every event that may have changed something."""
        node = self._tree.get(layout.CONTROLLER_EPOCH)
        if node is not None:
            self._controllers.setdefault(int(node.data), self._tree.writer_of(layout.CONTROLLER_EPOCH))
        for path in [path for path in self._paths if self._tree.get(path) is None]:
            self.partitions.pop(self._paths.pop(path), None)
        for topic in self._tree.children("/brokers/topics") or ():
            node = self._tree.get(f"/brokers/topics/{topic}")
            assert node is not None
            for index in self._tree.children(f"/brokers/topics/{topic}/partitions") or ():
                path = f"/brokers/topics/{topic}/partitions/{index}/state"
                state = self._tree.get(path)
                if state is None:
                    continue
                seen = (state.created, state.version, node.version)
                if self._seen.get(path) != seen:
                    self._seen[path] = seen
                    new = _parsed(
                        topic,
                        int(index),
                        json.loads(node.data),
                        json.loads(state.data),
                        state.version,
                        self._is_unclean(topic),
                    )
                    self._note(f"{new.name}: {new.told}")
                    key = PartitionKey(TopicId(new.topic_id), new.partition)
                    self._changed(path, self.partitions.get(key), new)
                    self.partitions[key] = new
                    self._paths[path] = key
        self._registrations = {
            int(name): self._registration(name) for name in self._tree.children("/brokers/ids") or ()
        }
        self.counting = {
            key: [
                member.node_id
                for member in state.members
                if member.epoch in self._registrations.get(member.node_id, ())
            ]
            for key, state in self.partitions.items()
        }

    def _is_unclean(self, topic: str) -> bool:
        config = self._tree.get(layout.topic_config_path(topic))
        return config is not None and layout.decode_config(config.data).get("unclean.leader.election.enable") == "true"

    def registration(self, node_id: int) -> Registration | None:
        """Of a broker that is registered."""
        return self._registrations.get(node_id)

    def _registration(self, name: str) -> Registration:
        node = self._tree.get(f"/brokers/ids/{name}")
        assert node is not None
        return node.created, json.loads(node.data).get("previous_epoch", -1)

    def _changed(self, path: str, old: TrueState | None, new: TrueState) -> None:
        if new.leader != NOBODY:
            if new.leader not in new.in_sync:
                raise Violation(f"I9: {new.name} is led by {new.leader}, and in sync are {new.in_sync}")
            leader = self._leaders.setdefault((new.topic_id, new.partition, new.leader_epoch), new.leader)
            if leader != new.leader:
                raise Violation(f"I10: {new.name} has two leaders in epoch {new.leader_epoch}: {leader}, {new.leader}")
        if not set(new.in_sync) <= set(new.replicas):
            raise Violation(f"I9: {new.name} has replicas on {new.replicas}, and in sync are {new.in_sync}")
        if old is None:
            return
        if new.leader_epoch < old.leader_epoch:
            raise Violation(f"I10: the leader epoch of {new.name} went from {old.leader_epoch} to {new.leader_epoch}")
        if new.leader_epoch > old.leader_epoch:
            self.leader_changes += 1
            node = self._tree.get(layout.CONTROLLER_EPOCH)
            if node is not None and new.controller_epoch != int(node.data) and not self._is_resignation(path, old, new):
                raise Violation(
                    f"I11: the controller of epoch {new.controller_epoch} elects a leader of {new.name} in {int(node.data)}"
                )
        if new.version == old.version + 1 and new.leader not in (NOBODY, *old.in_sync):
            if not new.allows_unclean:
                raise Violation(f"I12: {new.leader} leads {new.name}, and in sync were {old.in_sync}")
            self.unclean_elections += 1

    def _is_resignation(self, path: str, old: TrueState, new: TrueState) -> bool:
        """The leader itself wrote, over the state that it led in (`broker/leader_resignation.py`). The epoch in it is
        that of the last controller it has heard of, if not of the one who wrote last; never that of a term of its own.
        """
        return (
            new.version == old.version + 1
            and new.leader_epoch == old.leader_epoch + 1
            and (new.controller_epoch == old.controller_epoch or self._is_of_another(new.controller_epoch, old, path))
            and new.leader in set(old.in_sync) - {old.leader}
            and self._tree.is_written_by_owner_of(path, f"/brokers/ids/{old.leader}")
        )

    def _is_of_another(self, controller_epoch: int, old: TrueState, path: str) -> bool:
        """Whether who wrote there was not the controller of this epoch, which is not older than it was there before."""
        controller = self._controllers.get(controller_epoch)
        return controller_epoch > old.controller_epoch and controller not in (None, self._tree.writer_of(path))


def _parsed(
    topic: str, index: int, about: dict[str, Any], state: dict[str, Any], version: int, allows_unclean: bool
) -> TrueState:
    epochs = state.get("isr_epochs") or [-1] * len(state["isr"])
    moving = about.get("adding_replicas", {}).get(str(index)) or about.get("removing_replicas", {}).get(str(index))
    return TrueState(
        topic,
        parse_topic_id(about["topic_id"]),
        index,
        state["leader"],
        state["leader_epoch"],
        tuple(Member(node_id, epoch) for node_id, epoch in zip(state["isr"], epochs, strict=True)),
        tuple(about["partitions"][str(index)]),
        bool(moving),
        version,
        state.get("controller_epoch", -1),
        allows_unclean,
    )
