"""How long a broker has had its data: told by its log directories, over starts, crashes and disks that are replaced."""

import json

import pytest

from headwater.metadata.image import NEW_DATA
from headwater.server import data_since
from headwater.sim.disk import SimDisk

PATHS = ["/a", "/b"]


class Machine:
    """A broker that starts: `begin`, the claim of its directories, its registration, `settle`."""

    def __init__(self) -> None:
        self.disk = SimDisk(seed=1)
        self._made = 0
        for path in PATHS:
            self.disk.make_directory(path)

    def claim(self, *paths: str) -> None:
        for path in paths:
            if not self.disk.exists(f"{path}/meta.properties"):
                self._made += 1
                text = f"version=0\ndirectory.id=disk{self._made}\n"
                self.disk.write_file(f"{path}/meta.properties", text.encode())

    def start(self, epoch: int, *paths: str) -> int:
        """What it says that it has its data since."""
        told = data_since.begin(self.disk, paths or PATHS)
        self.claim(*(paths or PATHS))
        data_since.settle(self.disk, paths or PATHS, told, epoch)
        return told

    def take_out(self, path: str) -> dict[str, bytes]:
        """The disk that was there. An empty one is in its place."""
        files = {name: self.disk.read_file(f"{path}/{name}") for name in self.disk.list_directory(path)}
        for name in files:
            self.disk.remove(f"{path}/{name}")
        return files

    def put_in(self, path: str, files: dict[str, bytes]) -> None:
        self.take_out(path)
        for name, data in files.items():
            self.disk.write_file(f"{path}/{name}", data)


@pytest.fixture(name="machine")
def machine_fixture() -> Machine:
    return Machine()


def test_empty_directories_are_new_until_their_broker_has_registered(machine: Machine) -> None:
    assert data_since.begin(machine.disk, PATHS) == NEW_DATA
    machine.claim(*PATHS)
    assert machine.start(4711) == NEW_DATA, "the first start ended before the registration"
    assert machine.start(5000) == 4711
    assert machine.start(6000) == 4711


def test_directories_without_the_file_are_old(machine: Machine) -> None:
    machine.claim("/a")
    assert machine.start(4711) == -1
    assert not machine.disk.exists("/a/data-since")


def test_a_directory_that_is_added_makes_nothing_new(machine: Machine) -> None:
    machine.start(4711, "/a")
    assert machine.start(5000) == 4711
    assert machine.start(6000) == 4711


def test_one_disk_of_two_that_is_replaced_makes_the_data_new(machine: Machine) -> None:
    """It was taken for one that was added, and the broker led with empty logs what had lain there."""
    machine.start(4711)
    machine.take_out("/b")
    assert machine.start(5000) == NEW_DATA
    assert machine.start(6000) == 5000


def test_a_disk_that_was_added_and_then_replaced_is_missed(machine: Machine) -> None:
    machine.start(4711, "/a")
    machine.start(5000)
    machine.take_out("/b")
    assert machine.start(6000) == NEW_DATA


def test_a_directory_that_is_no_longer_used_is_missed(machine: Machine) -> None:
    machine.start(4711)
    assert machine.start(5000, "/a") == NEW_DATA


def test_with_the_old_disk_the_old_data_is_back(machine: Machine) -> None:
    machine.start(4711)
    old = machine.take_out("/b")
    assert data_since.begin(machine.disk, PATHS) == NEW_DATA  # and no registration: nothing was put on the new one
    machine.put_in("/b", old)
    assert machine.start(6000) == 4711


def test_with_the_old_disk_what_lay_on_the_other_one_is_missing(machine: Machine) -> None:
    machine.start(4711)
    old = machine.take_out("/b")
    machine.start(5000)
    machine.put_in("/b", old)
    assert machine.start(6000) == NEW_DATA


def test_a_disk_that_cannot_be_read_is_not_taken_for_one_that_was_replaced(machine: Machine) -> None:
    machine.start(4711)
    machine.disk.write_file("/b/meta.properties", bytes(20))
    assert machine.start(5000) == 4711


def test_a_crash_between_the_files_of_two_directories(machine: Machine) -> None:
    data_since.begin(machine.disk, PATHS)
    machine.claim(*PATHS)
    begun = machine.disk.read_file("/a/data-since")
    machine.start(4711)
    machine.disk.write_file("/a/data-since", begun)
    assert machine.start(5000) == 4711


def test_a_file_of_an_earlier_version_names_no_directories(machine: Machine) -> None:
    machine.claim(*PATHS)
    for path in PATHS:
        machine.disk.write_file(f"{path}/data-since", b'{"version": 0, "brokerEpoch": 4711}')
    assert machine.start(5000) == 4711
    machine.take_out("/b")
    assert machine.start(6000) == NEW_DATA, "the start before has named them"


def test_a_file_that_is_damaged_says_nothing(machine: Machine) -> None:
    machine.claim("/a")
    for text in (b"", b"{", b"[]", b'{"version":0}', json.dumps({"brokerEpoch": "x"}).encode()):
        machine.disk.write_file("/a/data-since", text)
        assert machine.start(4711) == -1


def test_what_is_remembered_is_bounded(machine: Machine) -> None:
    for epoch in range(100, 100 + 2 * data_since.VIEWS_MAX):
        machine.take_out("/b")
        machine.start(epoch)
    assert len(json.loads(machine.disk.read_file("/a/data-since"))["views"]) == data_since.VIEWS_MAX
