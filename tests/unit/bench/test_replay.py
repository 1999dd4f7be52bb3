"""The load generator and the bare servers that are its limit: every request is answered, and counted once."""

import shutil
import socket
import struct

import pytest
from bench import limits, requests
from bench.replay import Running, replay

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")


@needs_compiler
@pytest.mark.parametrize(("connections", "depth"), [(1, 1), (5, 1), (3, 4)])
def test_every_request_is_answered_and_counted(tmp_path, connections, depth):
    frames = [requests.produce("t", partition, requests.batch(3, 50 * partition)) for partition in range(4)]
    path = tmp_path / "frames.bin"
    path.write_bytes(b"".join(frames))
    with limits.bare_server_of_many() as (port, _):
        done = replay(port, path, connections=connections, depth=depth, seconds=20, requests=200)
    assert done.requests == 200
    assert done.bytes_in == 200 * len(limits.ANSWER)
    assert 200 * len(frames[0]) < done.bytes_out < 200 * len(frames[3])
    assert 0 < done.p50_us <= done.p99_us <= done.p999_us


@needs_compiler
def test_large_frames_go_through_whole(tmp_path):
    frame = requests.produce("t", 0, requests.batch(960, 1024))
    path = tmp_path / "frames.bin"
    path.write_bytes(frame)
    with limits.bare_server_of_many() as (port, _):
        done = replay(port, path, connections=2, depth=2, seconds=20, requests=40)
    assert (done.requests, done.bytes_out) == (40, 40 * len(frame))


@needs_compiler
def test_a_replay_that_is_stopped_waits_for_the_last_answer(tmp_path):
    frame = requests.produce("t", 0, requests.batch(1, 100))
    path = tmp_path / "frames.bin"
    path.write_bytes(frame)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Running(port, path, connections=1, depth=1, seconds=600) as running:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(len(frame), socket.MSG_WAITALL) == frame
                running.stop()
                connection.sendall(limits.ANSWER)
                assert running.result().requests == 1


def test_the_bare_server_waits_for_a_length_that_came_in_two():
    frame = struct.pack(">i", 10) + bytes(10)
    with limits.bare_server_of_many() as (port, _), socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(frame + frame[:2])
        assert len(client.recv(1000)) == len(limits.ANSWER)
        client.sendall(frame[2:])
        assert len(client.recv(1000)) == len(limits.ANSWER)
