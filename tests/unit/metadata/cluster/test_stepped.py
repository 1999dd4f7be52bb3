"""What others do between any two requests of one broker: it ends with the right image, and what it decided on an old
one is refused.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.base.coordination import Create, Delete, SetData, Write
from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import apply_news, decode_entry
from headwater.metadata.cluster.layout import ControllerNode
from headwater.metadata.image import (
    BrokerConfigured,
    BrokerRegistered,
    Change,
    ClusterImage,
    PartitionsAdded,
    TopicConfigured,
    TopicDeleted,
)
from headwater.sim.zookeeper_tree import Tree
from unit.metadata.cluster.cluster_store_support import Answer, me, partition_change, planned, topic, topic_id
from unit.metadata.cluster.stepped_support import Stepped


class Others:
    """The rest of the cluster: a tree, the image of its controller (broker 1), and what that commits."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.image = ClusterImage("new-cluster")
        self.image.apply(BrokerRegistered(replace(me(1), epoch=1)))
        self._number = 0
        for path, data in layout.BASE_NODES:
            self.write([Create(path, data)])
        self.write([Create(layout.CLUSTER_ID, layout.encode_cluster_id("new-cluster"))])
        self.write([Create(layout.broker_path(1), layout.encode_broker(me(1), 77), ephemeral=True)])
        self.write([Create(layout.CONTROLLER, layout.encode_controller(ControllerNode(BrokerId(1), 77, 0)))])
        self.commit(topic("a", 1, [(1, 5), (1, 5)]), topic("b", 2, [(1,)]))

    def write(self, writes: list[Write]) -> None:
        self._number += 1
        self.tree.apply(self._number, 77, writes)

    def commit(self, *changes: Change, write: Callable[[list[Write]], object] | None = None) -> None:
        for piece in planned(changes, self.image, self.tree):
            (write or self.write)(piece.writes)
            entry = piece.writes[-1]
            assert isinstance(entry, Create)
            apply_news(decode_entry(entry.data), self.image)


def reassign(others: Others) -> list[Change]:
    change = partition_change(others.image, "a", 1)
    return [replace(change, replicas=(5, 1), adding=(5,), leader=BrokerId(5), leader_epoch=LeaderEpoch(1))]


SCRIPTS: dict[str, list[Callable[[Others], list[Change]]]] = {
    "reassigned": [reassign],
    "reassigned twice": [
        reassign,
        lambda others: [replace(partition_change(others.image, "a", 1), replicas=(1,), adding=())],
    ],
    "deleted": [lambda _others: [TopicDeleted(topic_id(1))]],
    "deleted and made again": [
        lambda _others: [TopicDeleted(topic_id(1))],
        lambda _others: [topic("a", 3, [(5,), (5,)])],
    ],
    "made and deleted": [lambda _others: [topic("c", 4)], lambda _others: [TopicDeleted(topic_id(4))]],
    "grown": [lambda _others: [PartitionsAdded(topic_id(1), ((5,),))], reassign],
    "configured": [
        lambda _others: [TopicConfigured(topic_id(1), {"x": "1"}), BrokerConfigured("", {"y": "1"})],
        lambda _others: [TopicConfigured(topic_id(1), {"x": "2"}), BrokerConfigured("", {"y": "2"})],
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_change_at_any_moment_of_joining_is_not_missed(script: str) -> None:
    requests = Stepped(Others().tree).run()
    assert requests > 20
    for moment in range(1, requests):
        for gap in range(4):  # requests between the steps of the script
            others = Others()
            joining = Stepped(others.tree)
            steps = dict(zip((moment + gap * n for n in range(9)), SCRIPTS[script], strict=False)) if gap else {}

            def before(number: int) -> None:
                due = [steps[number]] if number in steps else SCRIPTS[script] if not steps and number == moment else []  # noqa: B023
                for step in due:
                    others.commit(*step(others), write=joining.coordination.change)  # noqa: B023

            joining.run(before)
            assert joining.joined.code == ErrorCode.NONE
            assert joining.image.topics == others.image.topics, (moment, gap)
            assert joining.image.broker_configs == others.image.broker_configs, (moment, gap)


def joined() -> tuple[Others, Stepped]:
    others = Others()
    broker = Stepped(others.tree)
    broker.run()
    return others, broker


def controlling() -> tuple[Others, Stepped]:
    others, broker = joined()
    broker.coordination.change([Delete("/controller")])
    broker.run()
    assert broker.is_active
    return others, broker


def test_a_new_controller_has_heard_all_that_the_last_one_wrote() -> None:
    others, broker = joined()
    others.commit(topic("c", 4, [(1,)]))  # the watch of the log is still on its way
    seen: list[bool] = []
    broker.store.on_controller = lambda is_controller: seen.append(is_controller and "c" in broker.image.ids_by_name)
    broker.coordination.change([Delete("/controller")])
    broker.run()
    assert seen == [True]


def test_a_commit_of_a_controller_that_has_a_successor_is_refused_and_it_ceases_to_be_one() -> None:
    _, broker = controlling()
    answer = Answer()
    broker.store.commit([topic("c", 9)], answer)
    broker.coordination.change([SetData("/controller_epoch", b"9")])
    broker.run()
    assert answer.code == ErrorCode.NOT_CONTROLLER
    assert not broker.is_active
    assert broker.coordination.tree.get("/brokers/topics/c") is None
    broker.run()
    assert not broker.is_active  # /controller is of an older epoch: it is not believed to be ours


def test_a_proposal_for_a_topic_that_was_made_again_does_not_touch_the_new_one() -> None:
    """Its paths are the same, and so are the versions of its states."""
    others, broker = joined()
    answer = Answer()
    broker.store.propose(replace(partition_change(broker.image, "a"), in_sync_replicas=(BrokerId(1),)), answer)
    broker.scheduler.run_due()
    others.commit(TopicDeleted(topic_id(1)), topic("a", 3, [(1, 5)]), write=broker.coordination.change)
    state = broker.coordination.tree.get("/brokers/topics/a/partitions/0/state")
    broker.run()
    assert answer.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.coordination.tree.get("/brokers/topics/a/partitions/0/state") == state
    assert broker.image.topic("a").topic_id == topic_id(3)  # known by the time of the answer


def test_proposals_of_one_turn_are_written_in_one_step_and_alone_if_one_is_refused() -> None:
    _, broker = joined()
    names = len(broker.coordination.tree.children(layout.CHANGES) or ())
    changes = [partition_change(broker.image, "a", number) for number in (0, 1)]
    answers = [Answer(), Answer()]
    for change, answer in zip(changes, answers, strict=True):
        broker.store.propose(replace(change, in_sync_replicas=(BrokerId(1),), in_sync_epochs=(1,)), answer)
    broker.run()
    assert [answer.code for answer in answers] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(broker.coordination.tree.children(layout.CHANGES) or ()) == names + 1
    assert [state.version for state in broker.image.topic("a").partitions] == [1, 1]
    answers = [Answer(), Answer()]
    late = replace(partition_change(broker.image, "a", 0), version=0)
    for change, answer in zip((late, partition_change(broker.image, "a", 1)), answers, strict=True):
        broker.store.propose(change, answer)
    broker.run()
    assert [answer.code for answer in answers] == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE]
    assert [state.version for state in broker.image.topic("a").partitions] == [1, 2]


def test_producer_ids_are_tried_again_after_a_lost_race() -> None:
    _, broker = joined()
    answer = Answer()
    broker.store.reserve_producer_ids(1000, answer.ids)

    def before(number: int) -> None:
        if number == first + 1:  # it has read the node, and not written it yet
            broker.coordination.change([SetData(layout.PRODUCER_IDS, layout.encode_block(1, 0, 1000))])

    first = broker.coordination.served
    broker.run(before)
    assert (answer.code, answer.value) == (ErrorCode.NONE, 1000)
    assert broker.coordination.tree.get(layout.PRODUCER_IDS).data == layout.encode_block(5, 1000, 1000)  # type: ignore[union-attr]


def test_a_topic_too_large_for_one_step_goes_piece_by_piece_and_its_name_is_free_then() -> None:
    _, broker = controlling()
    answers = [Answer(), Answer(), Answer()]
    broker.store.commit([topic("large", 9, [(5,)] * 600)], answers[0])
    broker.run()
    assert len(broker.image.topic("large").partitions) == 600
    broker.store.commit([TopicDeleted(topic_id(9))], answers[1])
    broker.store.commit([topic("large", 10)], answers[2])
    broker.run()
    assert [answer.code for answer in answers] == [ErrorCode.NONE] * 3
    assert broker.image.topic("large").topic_id == topic_id(10)
    assert broker.coordination.tree.children(layout.partitions_path("large")) == ["0"]


def test_a_new_controller_removes_what_another_left_half_deleted() -> None:
    others, broker = joined()
    others.commit(topic("large", 9, [(5,)] * 300), write=broker.coordination.change)
    others.commit(TopicDeleted(topic_id(9)), write=broker.coordination.change)
    gone = [Delete(layout.state_path("large", 0)), Delete(layout.partition_path("large", 0))]
    broker.coordination.change(gone)
    broker.run()
    assert "large" not in broker.image.ids_by_name
    late = Stepped(others.tree)  # loads it while it stands there half
    late.run()
    assert "large" not in late.image.ids_by_name
    broker.coordination.change([Delete("/controller")])
    broker.run()
    assert broker.is_active
    assert not [path for path in broker.coordination.tree.paths() if "large" in path]


def test_a_topic_that_kafka_made_is_adopted_by_the_controller() -> None:
    others = Others()
    node = layout.encode_topic(layout.TopicNode(topic_id(8), [[BrokerId(1)]]))
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}'
    others.write([Create("/brokers/topics/k", node), Create("/brokers/topics/k/partitions")])
    others.write([Create("/brokers/topics/k/partitions/0"), Create("/brokers/topics/k/partitions/0/state", state)])
    broker = Stepped(others.tree)
    broker.run()
    broker.coordination.change([Delete("/controller")])
    broker.run()
    answers = [Answer(), Answer()]
    broker.store.propose(partition_change(broker.image, "k"), answers[0])
    broker.store.commit([TopicConfigured(topic_id(8), {"x": "y"})], answers[1])
    broker.run()
    assert [answer.code for answer in answers] == [ErrorCode.NONE] * 2
    assert (broker.image.topic("k").partitions[0].version, broker.image.topic("k").config) == (1, {"x": "y"})


def test_a_topic_that_cannot_be_read_is_left_alone() -> None:
    others = Others()
    others.write([Create("/brokers/topics/old", b'{"version":2,"partitions":{"0":[1]}}')])
    node = layout.encode_topic(layout.TopicNode(topic_id(8), [[BrokerId(1)]]))
    others.write([Create("/brokers/topics/stateless", node)])
    broker = Stepped(others.tree)
    broker.run()
    assert broker.joined.code == ErrorCode.NONE
    assert sorted(broker.image.ids_by_name) == ["a", "b"]


def test_entries_that_were_trimmed_before_they_were_read_make_everything_load_anew() -> None:
    others, broker = joined()
    names = broker.coordination.tree.children(layout.CHANGES) or []
    others.commit(topic("c", 4, [(1,)]))  # no watch is told of this one
    others.commit(topic("d", 6, [(1,)]))
    missed = sorted(set(broker.coordination.tree.children(layout.CHANGES) or ()) - set(names))
    broker.coordination.change([Delete(f"{layout.CHANGES}/{missed[0]}")])
    broker.run()
    broker.clock.advance(5000)
    broker.run()
    assert broker.store.is_connected
    assert broker.image.topics == others.image.topics


def test_the_controller_keeps_the_log_short_and_others_do_not_touch_it() -> None:
    others, broker = joined()
    for number in range(600):
        others.commit(BrokerConfigured("", {"x": str(number)}))
    broker.coordination.change([Create(f"{layout.CHANGES}/{layout.CHANGE_PREFIX}", b"[]", sequential=True)])
    broker.run()
    assert len(broker.coordination.tree.children(layout.CHANGES) or ()) > 600
    assert broker.image.broker_configs == {"": {"x": "599"}}
    broker.coordination.change([Delete("/controller")])
    broker.run()
    answer = Answer()
    broker.store.commit([BrokerConfigured("", {"x": "end"})], answer)
    broker.run()
    left = broker.coordination.tree.children(layout.CHANGES) or []
    assert 300 <= len(left) < 400
    assert left[-1] == max(left)
    assert answer.code == ErrorCode.NONE
    assert broker.store.is_connected
