"""The log directories of a broker together: taken for this process, claimed for its broker, and which of them are in
use.

One that cannot be used is offline, and the others go on; without any there is no start. Owned by the manager.
"""

from headwater.base.errors import UserError
from headwater.base.ports import Disk, Random
from headwater.log.directory import LogDirectory, UnusableDirectoryError


class Directories:
    def __init__(self, disk: Disk, paths: list[str]) -> None:
        self.all = [LogDirectory(disk, path) for path in paths]

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.problem is None]

    @property
    def are_all_online(self) -> bool:
        return len(self.online) == len(self.all)

    def failed(self) -> dict[str, str]:
        """Those that are offline until a restart, and why."""
        return {directory.path: directory.problem for directory in self.all if directory.problem is not None}

    def at(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self.all if directory.path == path), None)

    def lock(self) -> None:
        """Takes them for this process; raises UserError if another has one of them, or if none can be used."""
        taken = []
        try:
            for directory in self.all:
                try:
                    directory.lock()
                    taken.append(directory)
                except OSError as error:
                    directory.take_offline(error)
            self.refuse_if_none_is_left()
        except UserError:
            for directory in taken:
                directory.unlock()
            raise

    def unlock(self) -> None:
        for directory in self.all:
            directory.unlock()

    def identity(self) -> dict[str, str]:
        """What the `meta.properties` of the first directory says that has any; empty if all are new."""
        found: dict[str, str] = {}
        for directory in self.online:
            try:
                found = found or directory.read_identity()
            except (OSError, UnusableDirectoryError) as error:
                directory.take_offline(error)
        self.refuse_if_none_is_left()
        return found

    def claim(self, cluster_id: str, broker_id: int, random: Random) -> None:
        """Raises UserError if one belongs to somebody else."""
        for directory in self.online:
            try:
                directory.claim(cluster_id, broker_id, random)
            except (OSError, UnusableDirectoryError) as error:
                directory.take_offline(error)
        self.refuse_if_none_is_left()

    def refuse_if_none_is_left(self) -> None:
        failed = self.failed()
        if len(failed) == len(self.all):
            what = (
                "No log directory can be used"
                if len(failed) > 1
                else f"The log directory {next(iter(failed))} cannot be used"
            )
            raise UserError(what, "; ".join(failed.values()), "check log.dirs")
