"""The servers of one service id, as they know each other: members of a group whose instance ids say where they listen.

A server that was killed stays a member until its session ends, 45 seconds by default. So each server knocks at the
others: one at whose address nobody listens any more, several times in a row, is sent away from the group, and another
gets its place at once. To be wrong about that does no harm: a server that was sent away joins again, and no query runs
twice, for each run fences the one before it. An address of the loopback is knocked at on its own machine only.

`Watch` is pure: what the group says and who answered goes in, and who is to be sent away comes out.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.client.admin.members import MemberToRemove

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition
    from headwater.client import AsyncAdmin

_KNOCK_S: Final = 2.0
REMEMBERED_MAX: Final = 100  # servers that have gone
_ANY: Final = ("", "0.0.0.0", "::", "*")


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
        """Whether this one listens where the other did, which therefore is no more."""
        return self != other and (self.address, self.machine) == (other.address, other.machine)

    @classmethod
    def parse(cls, text: str | None) -> ServerName | None:
        """None for what is no server of ours."""
        where, at, who = (text or "").partition("@")
        host, colon, port = where.rpartition(":")
        machine, dot, life = who.rpartition(".")
        if not (at and colon and dot and host and machine and port.isascii() and port.isdigit()):
            return None
        return cls(host.strip("[]"), int(port), machine, life)


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


@dataclass(slots=True)
class Watch:
    """What one server knows of all. Owned by its loop."""

    own: ServerName
    missed_max: int
    hosts: dict[ServerName, HostStatus] = field(default_factory=dict)

    def on_look(self, members: Iterable[Member], answered: Mapping[ServerName, bool], now_ms: int) -> list[ServerName]:
        """Who is to be sent away: predecessors at the own address, and who missed too many knocks. A server that is not
        in `answered` was not knocked at: what the group says of it counts.
        """
        present = {each.name: each.leads for each in members}
        gone = []
        for name, leads in present.items():
            known = self.hosts.setdefault(name, HostStatus(True, now_ms))
            known.leads = leads
            if name == self.own or answered.get(name, True):
                known.alive, known.missed, known.updated_ms = True, 0, now_ms
            else:
                known.missed += 1
                known.alive = known.missed < self.missed_max
            if self.own.succeeds(name) or not known.alive:
                known.alive = False
                gone.append(name)
        for name, known in self.hosts.items():
            if name not in present:
                known.alive, known.leads = name == self.own, False
        self._forget()
        return gone

    def statuses(self) -> dict[str, HostStatus]:
        """By address; of several lives of a server the latest."""
        found: dict[str, HostStatus] = {}
        for name, status in sorted(self.hosts.items(), key=lambda each: (each[1].alive, each[1].updated_ms)):
            found[name.address] = status
        return found

    def _forget(self) -> None:
        gone = [name for name, status in self.hosts.items() if not status.alive]
        for name in sorted(gone, key=lambda each: self.hosts[each].updated_ms)[:-REMEMBERED_MAX]:
            del self.hosts[name]


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
    await admin.remove_members(group, wanted, reason="nobody listens at its address")


async def answers_at(name: ServerName) -> bool:
    """Whether somebody listens there. A server that is only busy is still listening."""
    try:
        async with asyncio.timeout(_KNOCK_S):
            _, writer = await asyncio.open_connection(name.host, name.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
