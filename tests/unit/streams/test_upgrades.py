"""A topology that has changed: what its former run kept, and the new one would lose."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.streams import App
from headwater.streams.slot.upgrade_check import check_upgrade, has_lag, refusal
from headwater.streams.topology.upgrades import Losses, TopologyNote, losses, note_of, read_note

GENERATED = "KSTREAM-AGGREGATE-STATE-STORE-0000000001"


def note(*topics: str, store: str | None = None, name: str | None = None, before: bool = False) -> TopologyNote:
    app = App("app")
    for topic in topics:
        stream = app.stream(topic)
        if before:
            stream.filter(lambda value: value)
        stream.group_by(lambda value: value, name=name).count(store=store).to_stream().to("out")
    return note_of(app.topology())


def test_the_same_topology_loses_nothing() -> None:
    assert not losses(note("in"), note("in"))
    assert read_note(note("in").to_json()) == note("in")


def test_an_operator_before_another_moves_generated_names() -> None:
    found = losses(note("in"), note("in", before=True))
    assert found.stores
    assert found.repartitions
    assert "store=" in str(refusal("app", found).hint)


def test_named_operators_stay() -> None:
    assert not losses(
        note("in", store="counts", name="by-value"), note("in", store="counts", name="by-value", before=True)
    )


def test_a_generated_name_that_another_operator_has_now_is_mistaken() -> None:
    found = losses(note("a"), note("b"))
    assert found.mistaken == tuple(note("a").stores)
    assert not losses(note("a", store="counts", name="n"), note("b", store="counts", name="n")).mistaken


def test_another_kind_of_store_under_a_name_is_mistaken() -> None:
    from headwater.streams import tumbling

    app = App("app")
    app.stream("in").group_by_key().windowed_by(tumbling("1m")).count(store="counts")
    plain = App("app")
    plain.stream("in").group_by_key().count(store="counts")
    assert losses(note_of(plain.topology()), note_of(app.topology())) == Losses(mistaken=("counts",))


def test_more_stores_lose_nothing() -> None:
    assert not losses(TopologyNote(), note("in"))


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(UserError, match=r"The state of orders cannot be written to .*state/orders.*--state-dir"):
        check_upgrade(
            cast(Admin, None),
            cast(Any, None),
            "orders",
            App("orders").topology(),
            tmp_path / "state" / "orders",
            allowed=False,
        )


class Log:
    """A repartition topic of one partition: the offsets of its records, its ends, and how far the group is."""

    def __init__(self, records: list[int], end: int, committed: int | None, stable: int | None = None) -> None:
        self._records, self._end, self._committed = records, end, committed
        self._stable = end if stable is None else stable

    def list_group_offsets(self, _group: str, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
        return {} if self._committed is None else {wanted[0]: SimpleNamespace(offset=self._committed)}

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {each: SimpleNamespace(offset=self._end) for each in wanted}

    def ends(self, wanted: Sequence[TopicPartition], *, earliest: bool) -> dict[TopicPartition, int]:
        assert not earliest
        return dict.fromkeys(wanted, self._stable)

    def records(self, _place: TopicPartition, start: int, end: int, *, lost: str) -> Iterator[int]:
        assert lost == "skip"
        return (each for each in self._records if start <= each < end)


@pytest.mark.parametrize(
    ("log", "waits"),
    [
        (Log([0, 1, 2], 3, 3), False),
        (Log([0, 1, 2], 3, 2), True),  # one record, of an application at least once: it was taken for a marker
        (Log([0], 1, None), True),
        (Log([0, 1], 3, 2), False),  # a marker
        (Log([0, 1], 4, 2), False),  # markers of two producers
        (Log([0, 1, 3], 5, 2), True),
        (Log([0, 1], 3, 2, stable=2), True),  # a transaction is open
        (Log([], 0, None), False),
    ],
)
def test_each_record_that_waits_is_seen_and_no_marker_is_taken_for_one(log: Log, waits: bool) -> None:
    reader = cast(Any, lambda: nullcontext(log))
    assert has_lag(cast(Admin, log), reader, "orders", "orders-by-repartition", 1) is waits
