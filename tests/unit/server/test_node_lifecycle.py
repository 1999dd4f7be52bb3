"""Start and stop of a node: what is under way at the end is finished first, and a start that fails leaves nothing
behind.
"""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.log.manager import LogManager
from headwater.server import disk_work
from headwater.server import node as node_module
from headwater.server.disk import OsDisk
from headwater.server.node import Node, StartInterrupted
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.server.support.by_hand import TOPIC, Client, frame, produce, produced

MakeNode = Callable[..., Node]
PATIENCE_MS = 60_000  # for what takes a moment, on a machine that is busy with others


def open_files() -> set[tuple[str, str]]:
    """Descriptors and what they stand for. What earlier tests left may go meanwhile;
    what is new was left by this one.
    """
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed them
            found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


def config(directory: Path, **properties: object) -> BrokerConfig:
    named = {name.replace("_", "."): str(value) for name, value in properties.items()}
    return BrokerConfig({"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", **named})


def filled(node: Node, count: int) -> None:
    client = Client(node)
    client.send(frame(3, 9, 1, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]).encode(9)))
    client.receive()
    for number in range(count):
        client.send(produce(number))
        assert produced(client.receive())[0] == 0
    client.socket.close()


def test_a_checkpoint_under_way_at_shutdown_does_not_overwrite_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older recovery point beside the mark of a clean shutdown made the log end there: records were lost."""
    node = Node(config(tmp_path))
    node.start()
    filled(node, 3)
    log = node.broker.partition(TOPIC, 0).log
    log.recovery_point = 2
    released = threading.Event()
    replace, close = disk_work.replace_file, LogManager.close

    def slow(path: str, data: bytes, durable: bool, suffix: str = ".tmp") -> None:
        if suffix != ".tmp":
            released.wait(0.2)
        replace(path, data, durable, suffix)

    def close_then_release(self: LogManager, *arguments: Any) -> None:
        close(self, *arguments)
        released.set()

    monkeypatch.setattr(disk_work, "replace_file", slow)
    monkeypatch.setattr(LogManager, "close", close_then_release)
    node.broker.logs.write_checkpoints()
    node.close()
    again = Node(config(tmp_path))
    again.start()
    assert again.broker.partition(TOPIC, 0).log.log_end_offset == 3
    again.close()


def test_a_change_under_way_at_shutdown_is_finished(make_node: MakeNode, tmp_path: Path) -> None:
    node = Node(config(tmp_path))
    node.start()
    client = Client(node)
    sync, begun, released = os.fdatasync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        begun.set()
        released.wait(PATIENCE_MS / 1000)
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fdatasync", slow)
        client.send(frame(3, 9, 1, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]).encode(9)))
        for _ in range(PATIENCE_MS // 10):
            if begun.is_set():
                break
            node.loop.turn(0.01)
        assert begun.is_set()
        before = node.broker.image.ids_by_name.copy()
        release = threading.Timer(0.2, released.set)
        release.start()
        node.close()
        release.join()
    client.socket.close()
    assert not before
    assert TOPIC in node.broker.image.ids_by_name
    assert TOPIC in make_node().broker.image.ids_by_name


def test_a_taken_port_is_explained_and_leaves_a_clean_directory(tmp_path: Path, make_node: MakeNode) -> None:
    node = Node(config(tmp_path))
    node.start()
    filled(node, 1)
    node.close()
    before = open_files()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"Cannot listen on PLAINTEXT://127.0.0.1:{port}"):
            Node(config(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}")).start()
        with pytest.raises(UserError, match=f"metrics.port={port}"):
            Node(config(tmp_path, metrics_port=port)).start()
    assert not open_files() - before
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert make_node().broker.logs.clean_start


def test_a_directory_of_another_cluster_is_not_kept_locked(tmp_path: Path, make_node: MakeNode) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=abc\n")
    before = open_files()
    with pytest.raises(UserError, match="belongs to another broker"):
        Node(config(tmp_path, node_id=1)).start()
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=seven\ncluster.id=abc\n")
    with pytest.raises(UserError, match="seven"):
        Node(config(tmp_path)).start()
    (tmp_path / "meta.properties").unlink()
    assert not open_files() - before
    make_node()


def test_a_disk_that_fails_at_the_start_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files()

    def broken(self: object, path: str) -> list[str]:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(OsDisk, "list_directory", broken)
    with pytest.raises(UserError, match="cannot be used"):
        Node(config(tmp_path)).start()
    assert not open_files() - before


def test_a_stop_during_recovery_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files()
    node = Node(config(tmp_path))
    monkeypatch.setattr(LogManager, "open", lambda self, done: None)  # recovery that takes for ever
    node.loop.stop()
    with pytest.raises(StartInterrupted):
        node.start()
    assert not open_files() - before
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_broker_gives_up_when_every_log_directory_has_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(config(tmp_path))
    node.start()
    filled(node, 1)
    log = node.broker.partition(TOPIC, 0).log
    log.fail(OSError(errno.EIO, "Input/output error"))
    node.loop.run()  # until the next look at the directories
    node.close()
    assert node.exit_code == 1
    assert str(tmp_path) in caplog.text
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_one_failed_log_directory_of_two_is_lived_with(tmp_path: Path) -> None:
    node = Node(config(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b", num_partitions=2))
    node.start()
    filled(node, 1)
    node.broker.partition(TOPIC, 0).log.fail(OSError(errno.EIO, "Input/output error"))
    node.loop.run_until(lambda: node.exit_code != 0, 700)
    assert node.exit_code == 0
    node.close()
    marks = [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in "ab"]
    assert sorted(marks) == [False, True]


def test_the_file_limit_is_raised_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    node_module.raise_file_limit()
    assert asked == [(4096, 4096)]
