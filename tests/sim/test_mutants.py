"""A checker that cannot fail proves nothing: brokers with a promise taken out of them must be found out, and soon."""

from typing import Any

import pytest

from headwater.broker import produce_appends
from headwater.broker.handlers.fetch import Fetch
from headwater.log import appending, opening, recovery
from headwater.log.log import Log
from headwater.log.recovery import Recovered
from headwater.replication.partition import Partition
from headwater.server.stores.embedded import EmbeddedStore
from headwater.sim.world import SimulationFailed, World

WITHIN_SEEDS = 40
STEPS = 500


pytestmark = pytest.mark.usefixtures("nothing_is_told")


def must_be_found(*signs: str) -> None:
    for seed in range(WITHIN_SEEDS):
        try:
            World(seed).run(STEPS)
        except SimulationFailed as failure:
            what = str(failure).splitlines()[0]
            assert any(sign in what for sign in signs), what
            return
    raise AssertionError(f"{WITHIN_SEEDS} worlds noticed nothing")


def test_acknowledging_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "is_committed", lambda self, offset: True)
    must_be_found("I1")


def test_ignoring_sequence_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "_check_producer", lambda *arguments: None)
    must_be_found("I3")


def test_leaving_a_torn_tail_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = recovery.scan_segment

    def blind(*arguments: Any) -> Any:
        result = scan(*arguments)
        result.problem = None
        return result

    monkeypatch.setattr(recovery, "scan_segment", blind)
    must_be_found("damaged batch", "I1", "I2", "I6", "I15")


def test_no_recovery_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(disk: Any, path: str, recovery_point: int, *rest: Any) -> Recovered:
        return Recovered(recovery_point)

    monkeypatch.setattr(opening, "recover", believe)
    must_be_found("I1", "I2")


def test_serving_past_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Log.read

    def greedy(self: Log, offset: int, max_bytes: int, upper_offset: int, *, min_one_batch: bool) -> Any:
        return read(self, offset, max_bytes, self.log_end_offset, min_one_batch=min_one_batch)

    monkeypatch.setattr(Log, "read", greedy)
    must_be_found("past the high watermark")


def test_acknowledging_topics_before_they_are_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: EmbeddedStore, changes: Any, done: Any) -> None:
        for change in changes:
            self._image.apply(change)
        self.on_applied(changes)
        done(None)

    monkeypatch.setattr(EmbeddedStore, "commit", hasty)
    lost = "I1: durable-"  # its flush.messages was forgotten
    must_be_found("partitions and now has", "UNKNOWN_TOPIC", "was deleted and is back", "was given twice", lost)


def test_a_produce_that_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_appends.ProduceWait, "on_progress", lambda self, appended_bytes: None)
    monkeypatch.setattr(produce_appends.ProduceWait, "_timed_out", lambda self: None)
    must_be_found("I16")


def test_answers_that_keep_their_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = Fetch._respond

    def leaky(self: Fetch, read: Any) -> Any:
        response = respond(self, read)
        for _, _, data in read:
            if hasattr(data.records, "file"):
                data.records.file.retain()
        return response

    monkeypatch.setattr(Fetch, "_respond", leaky)
    must_be_found("references to files")
