"""A topology that has changed: what its former run kept, and the new one would lose."""

from pathlib import Path
from typing import cast

import pytest

from headwater.base.errors import UserError
from headwater.client.admin import Admin
from headwater.streams import App
from headwater.streams.slot.upgrade_check import check_upgrade, refusal
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
            cast(Admin, None), "orders", App("orders").topology(), tmp_path / "state" / "orders", allowed=False
        )
