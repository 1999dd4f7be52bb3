"""Network namespaces of Linux, joined by a bridge: machines of their own, as far as packets are concerned.

Each has one address, a network card and a loopback. What one sends to another is lost silently when its table of
neighbours names a card there that nobody has (`lose`): one way only, on open connections too, and until `find_all`. The
tests stay outside, at the bridge's own address.

Names carry the number of the process that made them. `close` removes all; what a killed process left behind, the next
one removes.
"""

import contextlib
import ctypes
import itertools
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

NOBODYS_CARD: Final = "02:00:00:00:00:fe"
NAMED_SPACES: Final = Path("/run/netns")
OWN_SPACE: Final = Path("/proc/thread-self/ns/net")
OF_PROCESS: Final = re.compile(r"(hw(\d+)n\d+)[a-z0-9]*$")
KIND_NETWORK: Final = 0x40000000  # CLONE_NEWNET
LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
PROBE_PORT: Final = 9
WAIT_S: Final = 120

_count = itertools.count(1)


class NotHere(Exception):
    """This machine does not let us, and says why."""


def ip(*words: str) -> str:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=WAIT_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotHere(f"ip {' '.join(words)}: {problem}") from problem
    if done.returncode:
        raise NotHere(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """This thread, and the processes that it starts, are in the namespace."""
    with OWN_SPACE.open() as before, (NAMED_SPACES / name).open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def _enter(descriptor: int) -> None:
    if LIBRARY.setns(descriptor, KIND_NETWORK):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Namespaces:
    """Raises NotHere. `places` are short names; a place's address comes from `address`, its namespace from `space`."""

    def __init__(self, places: Sequence[str]) -> None:
        remove_left_behind()
        self._bridge = f"hw{os.getpid()}n{next(_count)}"
        self._network = _free_network()
        self._numbers = {place: number for number, place in enumerate(places, 10)}
        self._lost: set[tuple[str, str]] = set()
        try:
            self._make()
            self._try_out(places[0], places[-1])
        except NotHere:
            self.close()
            raise
        except OSError as problem:
            self.close()
            raise NotHere(f"one namespace does not reach another: {problem}") from problem

    def address(self, place: str) -> str:
        return f"{self._network}.{self._numbers[place]}"

    def space(self, place: str) -> str:
        return f"{self._bridge}{place}"

    def lose(self, source: str, target: str) -> None:
        """What the one sends does not reach the other any more."""
        self._lost.add((source, target))
        entry = (self.address(target), "lladdr", NOBODYS_CARD, "nud", "permanent", "dev", "eth0")
        ip("-n", self.space(source), "neigh", "replace", *entry)

    def find_all(self) -> None:
        """Everything reaches everybody again."""
        while self._lost:
            source, target = self._lost.pop()
            ip("-n", self.space(source), "neigh", "del", self.address(target), "dev", "eth0")

    def close(self) -> None:
        remove(self._bridge)

    def _make(self) -> None:
        ip("link", "add", self._bridge, "type", "bridge")
        ip("address", "add", f"{self._network}.1/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for place, number in self._numbers.items():
            space, outer = self.space(place), f"{self._bridge}v{number}"
            ip("netns", "add", space)
            ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outer, "master", self._bridge, "up")
            ip("-n", space, "address", "add", f"{self.address(place)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _try_out(self, one: str, other: str) -> None:
        """A connection between two of them, and one from outside."""
        with inside(self.space(one)):
            listener = socket.create_server((self.address(one), PROBE_PORT))
        with listener:
            with inside(self.space(other)):
                socket.create_connection(listener.getsockname(), WAIT_S).close()
            socket.create_connection(listener.getsockname(), WAIT_S).close()


def _free_network() -> str:
    """Of those that are set aside for tests of networks (RFC 2544): the first three bytes, which this machine does not
    use yet.
    """
    used = ip("-o", "-4", "address", "show")
    numbers = [(os.getpid() + offset) % 512 for offset in range(512)]
    networks = (f"198.{18 + number // 256}.{number % 256}" for number in numbers)
    found = next((network for network in networks if f" {network}." not in used), None)
    if found is None:
        raise NotHere("every network for tests is in use")
    return found


def remove(bridge: str) -> None:
    """The bridge, and all namespaces that are named after it;
    those who are in one still keep it alive, out of reach.
    """
    for name in _spaces():
        if name.startswith(bridge) and not name.removeprefix(bridge)[:1].isdigit():
            with contextlib.suppress(NotHere):
                ip("netns", "del", name)
    with contextlib.suppress(NotHere):
        ip("link", "del", bridge)


def remove_left_behind() -> None:
    """What processes made that are gone."""
    links = [line.split(":")[1].strip() for line in ip("-o", "link", "show", "type", "bridge").splitlines()]
    for name in {*_spaces(), *links}:
        found = OF_PROCESS.match(name)
        if found is not None and not Path(f"/proc/{found.group(2)}").exists():
            remove(found.group(1))


def _spaces() -> list[str]:
    return [path.name for path in NAMED_SPACES.iterdir()] if NAMED_SPACES.is_dir() else []
