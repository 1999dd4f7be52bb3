"""The servers of one service id, as they know each other: members of a group whose instance ids say where they listen.

A server that was killed stays a member until its session ends, 45 seconds by default. So each server probes the
others: one that has answered before, and whose machine now refuses the connection several times in a row, is sent away
from the group, and another gets its place at once. A name that does not resolve, a missing route and a machine that
says nothing prove nothing: the session decides. An address of the loopback is probed on its own machine only.

A process that was stopped (SIGSTOP, a debugger, a swapping machine) still listens, for its kernel takes the connection.
So a probe also closes its half of the connection, and waits until the other side closes the other half, which only the
process can do. One that does not for `silent_max_ms` on end is sent away too. A slow machine is slow for who probes as
well: an observer that has not come to look for long counts anew, for he may be the one that stood still.

To be wrong does no harm once: a server that was sent away joins again, and no query runs twice, for each run fences the
one before it. So that it does not happen again and again, a server that came back must answer before it can be sent
away again, and each time it takes longer.

`Watch` is pure: what the group says and what the probes found goes in, and who is to be sent away comes out.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.client.admin.members import MemberToRemove

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition
    from headwater.client import AsyncAdmin

_CLOSE_S: Final = 2.0  # for the other side to close the connection
_PROBE_S: Final = 2 * _CLOSE_S  # for all of a probe
REMEMBERED_MAX: Final = 100  # servers that have gone
_ANY: Final = ("", "0.0.0.0", "::", "*")
_PORT_MAX: Final = 65_535
_AGAIN_FIRST_MS: Final = 1_000  # before a name is sent away for the second time; doubles each time
_AGAIN_MAX_MS: Final = 600_000


class ProbeResult(Enum):
    """What a probe of a server's address found."""

    ANSWERED = "somebody listens"
    SILENT = "somebody listens, and does nothing"
    REFUSED = "the machine is there, and nobody listens"
    UNREACHED = "nothing is known: no such name, no route, no answer in time"


class ServerName(NamedTuple):
    """`host:port@machine.life`: where a server listens, on which machine, and which of its lives this is."""

    host: str
    port: int
    machine: str
    life: str

    def __str__(self) -> str:
        return f"{self.address}@{self.machine}.{self.life}"

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host.lower() == "localhost"

    def may_reach(self, other: ServerName) -> bool:
        """Whether the other's address means the same here as there."""
        return self.machine == other.machine or not other.is_loopback

    def succeeds(self, other: ServerName) -> bool:
        """Whether this one listens where the other did, which therefore is no more; unless two machines have the same
        name.
        """
        return self != other and (self.address, self.machine) == (other.address, other.machine)

    @classmethod
    def parse(cls, text: str | None) -> ServerName | None:
        """None for what is no server of ours."""
        where, at, who = (text or "").partition("@")
        host, colon, port = where.rpartition(":")
        machine, dot, life = who.rpartition(".")
        if not (at and colon and dot and host and machine and port.isascii() and port.isdigit() and len(port) <= 5):
            return None
        return cls(host.strip("[]"), int(port), machine, life) if 0 < int(port) <= _PORT_MAX else None


def name_of_this(host: str, port: int) -> ServerName:
    """A new life of the server that listens there; every address is that of the machine."""
    machine = socket.gethostname()
    return ServerName(machine if host in _ANY else host, port, machine, secrets.token_hex(4))


class Member(NamedTuple):
    """A server in the group, and whether the group has given it the queries."""

    name: ServerName
    leads: bool


@dataclass(slots=True)
class HostStatus:
    alive: bool
    updated_ms: int
    leads: bool = False
    missed: int = 0
    silent: int = 0  # probes in a row
    silent_since_ms: int = 0
    has_answered: bool = False  # since it joined
    has_left: bool = False  # it is no member now
    came_back: bool = False  # who is dead does not join again
    sent_away: int = 0  # how often
    not_before_ms: int = 0  # is it sent away again


@dataclass(slots=True)
class Watch:
    """What one server knows of all. Owned by its loop."""

    own: ServerName
    missed_max: int
    silent_max_ms: int = 10_000
    interval_ms: int = 500
    hosts: dict[ServerName, HostStatus] = field(default_factory=dict)
    looked_ms: int = 0

    def on_look(
        self, members: Iterable[Member], probes: Mapping[ServerName, ProbeResult], now_ms: int
    ) -> list[ServerName]:
        """Who is to be sent away: predecessors at the own address, who refused too many probes, and who was silent for
        too long. A server that is not in `probes` was not probed: what the group says of it counts.
        """
        if now_ms - self.looked_ms > self.interval_ms + _CLOSE_S * 1_000 + self.silent_max_ms // 2:
            for known in self.hosts.values():
                known.silent = 0
        self.looked_ms = now_ms
        present = {each.name: each.leads for each in members}
        gone = []
        for name, leads in present.items():
            known = self.hosts.setdefault(name, HostStatus(True, now_ms))
            known.leads = leads
            if known.has_left:
                known.alive, known.has_left, known.came_back, known.has_answered = True, False, True, False
                known.missed = known.silent = 0
            _on_probe(known, probes.get(name), self.missed_max, now_ms)
            if (
                name != self.own
                and self._is_dead(name, known, probes.get(name), now_ms)
                and now_ms >= known.not_before_ms
            ):
                _on_sent_away(known, now_ms)
                gone.append(name)
        for name, known in self.hosts.items():
            if name not in present:
                known.alive, known.leads, known.has_left = name == self.own, False, True
        self._forget()
        return gone

    def _is_dead(self, name: ServerName, known: HostStatus, probe: ProbeResult | None, now_ms: int) -> bool:
        if self.own.succeeds(name):
            return probe is ProbeResult.REFUSED and not known.came_back
        stands = known.silent >= self.missed_max and now_ms - known.silent_since_ms >= self.silent_max_ms
        return known.has_answered and (known.missed >= self.missed_max or stands)

    def leader(self) -> tuple[ServerName, HostStatus] | None:
        """Who has the queries, as the group says."""
        return next(((name, each) for name, each in self.hosts.items() if each.leads), None)

    def statuses(self) -> dict[str, HostStatus]:
        """By address; of several lives of a server the latest."""

        def rank(each: tuple[ServerName, HostStatus]) -> tuple[bool, bool, int]:
            return each[0] == self.own, each[1].alive, each[1].updated_ms

        return {name.address: status for name, status in sorted(self.hosts.items(), key=rank)}

    def _forget(self) -> None:
        gone = [name for name, status in self.hosts.items() if not status.alive]
        for name in sorted(gone, key=lambda each: self.hosts[each].updated_ms)[:-REMEMBERED_MAX]:
            del self.hosts[name]


def _on_probe(known: HostStatus, probe: ProbeResult | None, missed_max: int, now_ms: int) -> None:
    """Counts are of the same in a row. Who is not alive is so again when it answers."""
    match probe:
        case ProbeResult.REFUSED:
            known.missed += 1
            known.silent = 0
            known.alive = known.alive and known.missed < missed_max
        case ProbeResult.SILENT:
            if not known.silent:
                known.silent_since_ms = now_ms
            known.missed = 0
            known.silent += 1
            known.alive = known.alive and known.silent < missed_max
        case ProbeResult.UNREACHED:
            known.missed = known.silent = 0  # it may have answered somebody meanwhile
        case _:
            known.alive, known.missed, known.silent, known.updated_ms = True, 0, 0, now_ms
            known.has_answered = known.has_answered or probe is ProbeResult.ANSWERED


def _on_sent_away(known: HostStatus, now_ms: int) -> None:
    known.alive, known.missed, known.silent = False, 0, 0
    known.not_before_ms = now_ms + min(_AGAIN_MAX_MS, _AGAIN_FIRST_MS << min(known.sent_away, 16))
    known.sent_away += 1


async def members_of(admin: AsyncAdmin, group: str, partition: TopicPartition) -> list[Member]:
    """The servers that are in the group. One that is to get the partition leads when no other has it any more. Raises
    KafkaError.
    """
    members = (await admin.describe_group(group)).members
    is_held = any(partition in each.assignment for each in members)
    found = []
    for each in members:
        name = ServerName.parse(each.instance_id)
        if name is not None:
            leads = partition in (each.assignment if is_held else each.target or ())
            found.append(Member(name, leads))
    return found


async def send_away(admin: AsyncAdmin, group: str, names: Iterable[ServerName]) -> None:
    """Raises KafkaError; one that has gone meanwhile is none."""
    wanted = [MemberToRemove(instance_id=str(each)) for each in names]
    await admin.remove_members(group, wanted, reason="nobody listens at its address, or nobody answers")


async def probe(name: ServerName) -> ProbeResult:
    """Whether somebody listens there, and does what only a process that runs can do: close the connection."""
    found = await _connected(name)
    if isinstance(found, ProbeResult):
        return found
    return ProbeResult.ANSWERED if found.was_closed else ProbeResult.SILENT


async def probe_own(own: ServerName) -> ProbeResult:
    """Whether somebody else listens at the own address: ANSWERED only if the connection leaves this machine."""
    found = await _connected(own)
    return ProbeResult.ANSWERED if isinstance(found, Ends) and not found.are_one_machine else ProbeResult.REFUSED


class Ends(NamedTuple):
    """The IP addresses of both ends of a connection, and whether the other end closed it when it was asked to."""

    here: str
    there: str
    was_closed: bool = True

    @property
    def are_one_machine(self) -> bool:
        return self.here == self.there or ipaddress.ip_address(self.there.partition("%")[0]).is_loopback


async def _connected(name: ServerName) -> Ends | ProbeResult:
    """A connection that was made and closed, or why there is none. A name with several addresses refuses when one of
    them does, and none takes the connection.
    """
    met = ProbeResult.UNREACHED
    try:
        async with asyncio.timeout(_PROBE_S):
            loop = asyncio.get_running_loop()
            for *_, place in await loop.getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM):
                try:
                    return await _connected_to(str(place[0]), int(place[1]))
                except ConnectionRefusedError:
                    met = ProbeResult.REFUSED
                except OSError:
                    continue
    except (OSError, TimeoutError, ValueError, OverflowError):  # the last two: what can be no name or port
        return ProbeResult.UNREACHED
    return met


async def _connected_to(host: str, port: int) -> Ends:
    reader, writer = await asyncio.open_connection(host, port)
    ends = Ends(writer.get_extra_info("sockname")[0], writer.get_extra_info("peername")[0])
    try:
        writer.write_eof()
        async with asyncio.timeout(_CLOSE_S):
            await reader.read(1)  # an end, a reset, or a word: something that the process did
    except TimeoutError:
        return ends._replace(was_closed=False)
    except OSError:
        pass
    finally:
        writer.transport.abort()
    return ends
