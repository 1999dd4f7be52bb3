"""How long a broker has had its data: told by its log directories, over starts and crashes."""

import json

import pytest

from headwater.metadata.image import NEW_DATA
from headwater.server import data_since
from headwater.sim.disk import SimDisk

PATHS = ["/a", "/b"]


@pytest.fixture(name="disk")
def disk_fixture() -> SimDisk:
    disk = SimDisk(seed=1)
    for path in PATHS:
        disk.make_directory(path)
    return disk


def claim(disk: SimDisk, *paths: str) -> None:
    for path in paths:
        disk.write_file(f"{path}/meta.properties", b"version=0\n")


def test_empty_directories_are_new_until_their_broker_has_registered(disk: SimDisk) -> None:
    assert data_since.begin(disk, PATHS) == NEW_DATA
    claim(disk, *PATHS)
    assert data_since.begin(disk, PATHS) == NEW_DATA, "the first start ended before the registration"
    data_since.settle(disk, PATHS, 4711)
    assert data_since.begin(disk, PATHS) == 4711


def test_directories_without_the_file_are_old(disk: SimDisk) -> None:
    claim(disk, "/a")
    assert data_since.begin(disk, PATHS) == -1
    assert not disk.exists("/a/data-since")


def test_one_directory_that_is_empty_makes_nothing_new(disk: SimDisk) -> None:
    data_since.settle(disk, ["/a"], 4711)
    claim(disk, "/a")
    assert data_since.begin(disk, PATHS) == 4711


def test_a_crash_between_the_files_of_two_directories(disk: SimDisk) -> None:
    data_since.begin(disk, PATHS)
    claim(disk, *PATHS)
    data_since.settle(disk, ["/b"], 4711)
    assert data_since.begin(disk, PATHS) == 4711


def test_a_file_that_is_damaged_says_nothing(disk: SimDisk) -> None:
    claim(disk, "/a")
    for text in (b"", b"{", b"[]", b'{"version":0}', json.dumps({"brokerEpoch": "x"}).encode()):
        disk.write_file("/a/data-since", text)
        assert data_since.begin(disk, PATHS) == -1
