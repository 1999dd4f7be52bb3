"""A slot as a process of its own: registers with the runtime's lead, hosts applications, ends with its lease.

The thread that calls `run_slot` reads the connection and says now and then that it lives; each application has a thread
of its own. When the connection is lost, nothing more is committed and `run_slot` raises: whoever supplies slots starts
another. The thread of the connection waits for no application: while it did, all others of the slot would hear nothing,
and the lead would take the slot for dead. So an application that comes again waits in its own thread for the one
before.
"""

import time
from collections.abc import Callable
from typing import Final

from headwater.spark.slots.frames import Channel, ChannelClosed
from headwater.spark.slots.greeting import greeting
from headwater.spark.slots.message_codec import EndLease, Heartbeat, Leaving
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.slot.hosted_application import HostedApplication

_HEARTBEAT_S: Final = 0.5
_ENDING_S: Final = 0.02


def run_slot(number: int, address: tuple[str, int], secret: bytes) -> int:
    """Until the lease ends: how many records it has read. Raises ChannelClosed when the lead is gone."""
    channel = Channel.connected(address, secret, messages.CODEC)
    host = SlotHost(number, channel.send, channel.local_host)
    try:
        channel.send(greeting(number))
        while not host.done:
            host.take(channel.receive(host.patience_s))
            host.beat(time.monotonic())
        channel.send(Leaving())
    except BaseException:
        host.lose()
        raise
    finally:
        host.join()
        channel.close()
    return host.records


class SlotHost:
    """What a slot does with what it is told. Driven by one thread."""

    def __init__(self, number: int, send: Callable[[messages.Message], None], address: str = "127.0.0.1") -> None:
        """`address`: of this machine, where queries are answered."""
        self._number = number
        self._address = address
        self._send = send
        self._applications: dict[str, HostedApplication] = {}
        self._replaced: list[HostedApplication] = []  # by others of the same name, and not seen to have ended yet
        self._ending = False
        self._records_before = 0
        self._beat_at = 0.0
        self._told: dict[str, messages.Progress] = {}

    @property
    def done(self) -> bool:
        return self._ending and all(each.ended for each in self._applications.values())

    @property
    def patience_s(self) -> float:
        return _ENDING_S if self._ending else _HEARTBEAT_S

    @property
    def records(self) -> int:
        here = [*self._applications.values(), *self._replaced]
        return self._records_before + sum(each.progress().records for each in here)

    def take(self, message: messages.Message | None) -> None:
        match message:
            case None:
                return
            case messages.Introduce(name):
                if not self._ending:
                    before = self._replace(name)
                    self._applications[name] = HostedApplication(
                        self._number, message, self._send, self._address, before
                    )
            case EndLease():
                self._ending = True
                for each in self._applications.values():
                    each.stop()
            case (
                messages.Assign(name)
                | messages.Pause(name)
                | messages.StopApplication(name)
                | messages.Producer(name)
                | messages.OffsetsCommitted(name)
                | messages.NewMember(name)
            ):
                self._tell(name, message)
            case _:
                raise ChannelClosed(f"a lead does not say {type(message).__name__}")

    def beat(self, now: float) -> None:
        """Says that this process lives, and how far applications are."""
        if now - self._beat_at < _HEARTBEAT_S:
            return
        self._beat_at = now
        self._send(Heartbeat())
        self._forget_replaced()
        for name, each in self._applications.items():
            progress = each.progress()
            if not each.ended and self._told.get(name) != progress:
                self._told[name] = progress
                self._send(progress)

    def lose(self) -> None:
        for each in self._applications.values():
            each.lose()

    def join(self) -> None:
        for each in self._applications.values():
            each.join()

    def _tell(self, name: str, message: messages.Message) -> None:
        application = self._applications.get(name)
        if application is None:
            return
        if isinstance(message, messages.Assign):
            application.assign(message)
        elif isinstance(message, messages.Pause):
            application.pause(message.paused)
        elif isinstance(message, messages.StopApplication):
            application.stop()
        else:
            application.answer(message)

    def _replace(self, name: str) -> HostedApplication | None:
        """An application that comes again: what was of it here has ended, or is to end. Waits for nothing."""
        before = self._applications.pop(name, None)
        if before is not None:
            before.lose()
            self._replaced.append(before)
        return before

    def _forget_replaced(self) -> None:
        ended = [each for each in self._replaced if each.ended]
        self._records_before += sum(each.progress().records for each in ended)
        self._replaced = [each for each in self._replaced if each not in ended]
