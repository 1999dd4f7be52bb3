"""Closes the logs of a directory, and leaves the mark of a clean shutdown where all of it went well.

What goes wrong with one log costs the others nothing but the mark: the next start looks at all of them.
"""

import logging
from itertools import islice
from typing import Final

from headwater.base.errors import KafkaError
from headwater.base.ports import Disk
from headwater.log import names
from headwater.log.checkpoint import Offsets, crc_of_epochs, format_epochs
from headwater.log.directory import LogDirectory
from headwater.log.flushing import WholeFlush
from headwater.log.log import Log
from headwater.log.open_logs import OpenLogs

_CLOSED_AT_ONCE: Final = 64  # logs: each has half a dozen files open then

logger = logging.getLogger("headwater.log")


def close_directory(
    disk: Disk, directory: LogDirectory, open_logs: OpenLogs, cleaner_offsets: Offsets, broker_epoch: int
) -> None:
    """Flushes and closes its logs, and lets go of it."""
    logs = open_logs.in_directory(directory)
    if directory.problem is None:
        high_watermarks = open_logs.high_watermarks(directory)
        # Or the next start would take those for recovered:
        clean = directory not in open_logs.offline.values() and not open_logs.has_gaps(directory)
        for at in range(0, len(logs), _CLOSED_AT_ONCE):
            clean &= _close(disk, directory, logs[at : at + _CLOSED_AT_ONCE])
        try:
            directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, open_logs.recovery_points(directory))
            directory.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, open_logs.log_start_offsets(directory))
            directory.checkpoint_now(names.REPLICATION_OFFSET_CHECKPOINT, high_watermarks)
            if cleaner_offsets:
                directory.checkpoint_now(names.CLEANER_OFFSET_CHECKPOINT, cleaner_offsets)
            if clean:
                epochs = {str(log.partition): crc_of_epochs(format_epochs(log.epochs.entries)) for log in logs}
                directory.mark_clean(broker_epoch, epochs)
        except OSError as error:
            logger.error("event=close-failed directory=%s error=%r", directory.path, str(error))
    else:
        for log in logs:
            log.abandon()
    directory.unlock()


def _close(disk: Disk, directory: LogDirectory, logs: list[Log]) -> bool:
    """Their syncs go to the device together. Whether all went well."""
    clean = True
    flushes: list[tuple[Log, WholeFlush | None]] = []
    for log in logs:
        try:
            flushes.append((log, log.begin_close()))
        except (OSError, KafkaError) as error:
            clean = _not_closed(log, error)
    errors = iter(disk.sync_together([each for _, flush in flushes if flush is not None for each in flush.work]))
    for log, flush in flushes:
        try:
            if flush is not None:
                flush.finish(list(islice(errors, len(flush.work))))
            log.abandon()
        except OSError as error:
            directory.distrust()
            clean = _not_closed(log, error)
    return clean


def _not_closed(log: Log, error: Exception) -> bool:
    log.abandon()
    logger.error("event=close-failed partition=%s error=%r", log.partition, str(error))
    return False
