"""Makes faults happen, one after the other, as the seed decides, and mends them again.

Owned by the world. A dead broker is started again after a while; one that does not come up although its disk is in
order breaks a promise of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.sim.disk import UNLIMITED
from headwater.sim.strikes import Strikes
from headwater.sim.trace import Violation

if TYPE_CHECKING:
    from headwater.sim.world import World

_HOUR_MS: Final = 3_600_000
_NORMAL_DELAY_MS: Final = (0, 3)


class Injector:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._node = world.node
        self._sync_trouble = False
        faults = world.faults
        kinds: dict[Callable[[], None], int] = {
            self._kill: faults.kill,
            self._lose_power: faults.power_loss,
            self._restart_cleanly: faults.clean_restart,
            self._set_clock: faults.clock_jump,
            self._fill_disk: faults.disk_full,
            self._fail_sync: faults.failed_sync,
            self._slow_disk: faults.slow_disk,
            self._stall_followers: faults.stalled_followers,
        }
        self.strikes = Strikes(world, kinds)
        self._later = self.strikes.later

    def start(self) -> None:
        self.strikes.start()

    def end(self) -> None:
        """No more faults; what is broken is mended or about to be."""
        self.strikes.is_over = True
        self._disk_mended()
        self._disk_quick()
        self._followers_go_on()
        self._world.set_clock(self._node.node_id, self._node.clock, 0)

    # The process

    def _kill(self) -> None:
        if self._node.broker is not None and not self._sync_trouble:
            self._world.note("fault: killed")
            self._node.kill()
            self._down(cleanly=False, power_was_lost=False)

    def _lose_power(self) -> None:
        self._world.note("fault: power loss")
        self._sync_trouble = False
        self._node.disk.faults.syncs_to_fail = 0
        was_up = self._node.broker is not None
        self._node.lose_power()
        if was_up:
            self._down(cleanly=False, power_was_lost=True)
        else:
            self._world.broker_ended(cleanly=False, power_was_lost=True)

    def _restart_cleanly(self) -> None:
        if self._node.broker is not None and not self._sync_trouble:
            self._world.note("fault: clean restart")
            self._node.stop()
            marked = self._node.disk.exists(
                "/data/.kafka_cleanshutdown"
            )  # a full disk may have kept it from being clean
            self._down(cleanly=marked, power_was_lost=False)

    def _down(self, *, cleanly: bool, power_was_lost: bool) -> None:
        self._world.broker_ended(cleanly=cleanly, power_was_lost=power_was_lost)
        self._later((5, 250), self._come_up)

    def _come_up(self) -> None:
        disk = self._node.disk
        in_order = disk.faults.free_bytes > UNLIMITED // 2 and not disk.faults.syncs_to_fail
        if not self._node.start():
            if in_order:
                raise Violation("I16: the broker does not start, and nothing is wrong with its disk")
            self._world.broker_ended(cleanly=False, power_was_lost=False)
            self._later((100, 200), self._come_up)
            return
        self._world.note("the broker is up")

    # The machine

    def _set_clock(self) -> None:
        skew_ms = self.strikes.chance.choice((0, 0, -_HOUR_MS // 2, _HOUR_MS // 2, -2 * _HOUR_MS, 2 * _HOUR_MS))
        self._world.note(f"fault: the clock is {skew_ms} ms off")
        self._world.set_clock(self._node.node_id, self._node.clock, skew_ms)

    def _fill_disk(self) -> None:
        self._node.disk.faults.free_bytes = self.strikes.chance.randint(0, 2500)
        self._world.note("fault: disk full")
        self._later((100, 1000), self._disk_mended)

    def _disk_mended(self) -> None:
        self._node.disk.faults.free_bytes = UNLIMITED

    def _fail_sync(self) -> None:
        """A failed fsync may leave pages that look written and are not. They are gone with the next power loss only,
        and a restart in between would believe them; so the machine, not the process, is what starts again here.
        """
        if self._sync_trouble or self._node.broker is None:
            return
        self._world.note("fault: fsync fails")
        self._sync_trouble = True
        self._node.disk.faults.syncs_to_fail = self.strikes.chance.randint(1, 2)
        self._later((100, 800), self._after_failed_sync)

    def _after_failed_sync(self) -> None:
        if self._sync_trouble:
            self._lose_power()

    def _slow_disk(self) -> None:
        self._world.note("fault: slow disk")
        self._node.disk_delay_ms = (20, 150)
        self._later((200, 1200), self._disk_quick)

    def _disk_quick(self) -> None:
        self._node.disk_delay_ms = _NORMAL_DELAY_MS

    def _stall_followers(self) -> None:
        self._world.note("fault: followers stall")
        self._world.followers.are_stalled = True
        self._later((200, 1200), self._followers_go_on)

    def _followers_go_on(self) -> None:
        self._world.followers.are_stalled = False
