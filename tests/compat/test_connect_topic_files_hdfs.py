"""TopicFiles onto a real HDFS, by WebHDFS: under `make soak`, because its jars are some 100 MB."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.locations import HdfsLocation, location_of
from headwater.connect.connectors.topic_files.webhdfs import WebHdfs
from headwater.connect.errors import ConnectError
from headwater.testing.connect import SinkKit
from spark.support.hdfs import JARS, Hdfs

pytestmark = pytest.mark.soak(only=True)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    assert any(JARS.glob("*.jar")), "the jars of tests/spark/hdfs/pom.xml are missing: HEADWATER_SOAK=1 tests/tools.sh"
    with Hdfs(tmp_path_factory.mktemp("hdfs") / "run") as running:
        yield running


@pytest.fixture
def config(hdfs: Hdfs, request: pytest.FixtureRequest) -> dict[str, str]:
    name = request.node.name.replace("[", "-").replace("]", "")
    settings = {"path": f"{hdfs.web}/{name}", "format": "json", "flush.size": "2"}
    return settings | {"partitioner": "field", "partition.field.name": "kind"}


def client(config: dict[str, str]) -> tuple[WebHdfs, Path]:
    place = location_of(TopicFilesConnector.config_def.parse(config))
    assert isinstance(place, HdfsLocation)
    return WebHdfs(place), place.directory


def names(config: dict[str, str]) -> list[str]:
    files, root = client(config)
    return sorted(str(each.relative_to(root)) for each in files.walk(root))


def put_until(sink: SinkKit, end: int) -> None:
    while sink.next_offset < end:
        sink.put({"n": sink.next_offset, "kind": "a b" if sink.next_offset % 2 else "c"})


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_task_that_dies_at_each_rename_gives_each_record_once(
    config: dict[str, str], hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    renames, rename = 0, WebHdfs.rename

    def dying(self: WebHdfs, source: Path, target: Path) -> None:
        nonlocal renames
        renames += 1
        if renames == step:
            raise KeyboardInterrupt
        rename(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(WebHdfs, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            put_until(SinkKit(TopicFilesConnector, config), 9)
    put_until(SinkKit(TopicFilesConnector, config), 9)
    ends = [name.rpartition("t+0+")[2] for name in names(config)]
    assert sorted(ends) == [f"{first:010}+{last:010}.json" for first, last in ((0, 2), (1, 1), (3, 5), (4, 4), (6, 8), (7, 7))]  # fmt: skip
    root = client(config)[1]
    lines = hdfs.read(*(str(root / name) for name in names(config))).splitlines()
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(9))


def test_a_rename_tells_what_is_gone_and_what_is_there(config: dict[str, str]) -> None:
    files, root = client(config)
    files.make_directory(root)
    for name, data in (("a", b"x"), ("same", b"x"), ("other", b"yy")):
        files.write(root / name, data)
    with pytest.raises(FileNotFoundError):
        files.rename(root / "none", root / "b")
    with pytest.raises(FileExistsError):
        files.rename(root / "a", root / "other")
    files.rename(root / "a", root / "same")  # another task wrote the same
    with pytest.raises(FileNotFoundError):
        files.unlink(root / "a")
    assert names(config) == ["other", "same"]


def test_who_may_not_write_is_told(config: dict[str, str]) -> None:
    with pytest.raises(ConnectError, match=r"Cannot write .*AccessControlException"):
        put_until(SinkKit(TopicFilesConnector, {**config, "webhdfs.user": "nobody-else"}), 3)
    with pytest.raises(ConnectError, match="Cannot write"):
        put_until(SinkKit(TopicFilesConnector, {**config, "path": "webhdfs://127.0.0.1:1/x"}), 3)
