"""A broker alone without one of its log directories: which topics it has, what it does not make anew, and when it
cannot start.
"""

import errno

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.broker.topics import plan_topic
from headwater.metadata.image import PartitionsAdded
from headwater.sim.disk import SimDisk
from unit.server.support.machine import Machine


class HalfDisk(SimDisk):
    broken = ""

    def lock(self, path: str) -> None:
        if self.broken and path.startswith(self.broken):
            raise OSError(errno.EIO, "Input/output error", path)
        super().lock(path)


def machine_with_two() -> Machine[HalfDisk]:
    return Machine(HalfDisk(seed=1), "/a,/b")


def test_what_may_lie_in_the_lost_directory_is_not_made_anew() -> None:
    machine = machine_with_two()
    broker = machine.start()
    machine.commit(broker, plan_topic(broker, "old", 4, 1, {}))
    homes = {name.partition: broker.logs.directory_of(name) for name in broker.logs.logs}
    machine.assembly.close()

    machine.disk.broken = "/b"
    broker = machine.start()
    machine.tick()
    for index, home in homes.items():
        if home == "/a":
            assert broker.partition("old", index)
        else:
            with pytest.raises(KafkaError) as caught:
                broker.partition("old", index)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    machine.commit(broker, plan_topic(broker, "new", 3, 1, {}))
    machine.commit(broker, PartitionsAdded(broker.image.ids_by_name["old"], ((1,), (1,))))
    assert [broker.partition("new", index).log.directory for index in range(3)] == [f"/a/new-{n}" for n in range(3)]
    assert broker.partition("old", 5).log.directory == "/a/old-5"
    machine.assembly.close()

    machine.disk.broken = ""
    broker = machine.start()
    for index, home in homes.items():
        assert broker.partition("old", index).log.directory == f"{home}/old-{index}"


def test_without_its_metadata_a_broker_does_not_start() -> None:
    machine = machine_with_two()
    machine.start()
    machine.assembly.close()
    machine.disk.broken = "/a"
    with pytest.raises(UserError) as caught:
        machine.start()
    assert caught.value.what == "The log directory /a cannot be used, and the broker cannot start without it"
    assert "Input/output error" in caught.value.why
    machine.disk.broken = ""
    machine.start()


def test_when_the_last_directory_has_failed_the_broker_gives_up() -> None:
    machine = machine_with_two()
    broker = machine.start()
    machine.commit(broker, plan_topic(broker, "t", 2, 1, {}))
    reasons: list[str] = []
    machine.assembly.on_all_failed = reasons.append
    first, second = broker.logs.logs.values()
    first.fail(OSError(errno.EIO, "Input/output error"))
    machine.tick()
    assert reasons == []
    second.fail(OSError(errno.EIO, "Input/output error"))
    machine.tick()
    assert "/a" in reasons[0]
    assert "/b" in reasons[0]
