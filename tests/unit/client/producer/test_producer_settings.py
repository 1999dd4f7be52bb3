"""The producer's settings: names old and new, what idempotence asks of the others, what is refused and why."""

from pathlib import Path
from typing import Any

import pytest

from headwater.base.config.definition import format_value
from headwater.base.errors import UserError
from headwater.client.settings.common import COMMON
from headwater.client.settings.producer import PRODUCER, ProducerSettings, read_producer_settings


def _read(given: dict[str, Any] | None = None, **keywords: Any) -> ProducerSettings:
    return read_producer_settings(given, keywords)[1]


@pytest.mark.parametrize(("said", "acks"), [("all", -1), ("-1", -1), (-1, -1), (1, 1), ("1", 1), (0, 0)])
def test_acks(said: object, acks: int) -> None:
    assert _read({"acks": said}).acks == acks
    assert _read({"request.required.acks": said}).acks == acks


@pytest.mark.parametrize("given", [{"acks": 2}, {"acks": "2"}, {"request.required.acks": "2"}])
def test_two_acks_are_refused_with_a_word_of_explanation(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"min\.insync\.replicas"):
        _read(given)
    with pytest.raises(UserError, match="acks=all"):
        _read(acks=3)


def test_a_misspelt_setting_is_told() -> None:
    with pytest.raises(UserError, match="linger"):
        _read({"lingre.ms": 5})


def test_idempotence_is_on_unless_something_forbids_it() -> None:
    assert _read().idempotent
    assert not _read(acks=1).idempotent
    assert not _read(retries=0).idempotent
    assert not _read(max_in_flight_requests_per_connection=6).idempotent
    assert not _read(enable_idempotence=False).idempotent


@pytest.mark.parametrize("other", [{"acks": 1}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}])
@pytest.mark.parametrize("asking", [{"enable_idempotence": True}, {"transactional_id": "tx"}])
def test_idempotence_that_was_asked_for_is_not_dropped_quietly(other: dict[str, Any], asking: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="Idempotence"):
        _read(**other, **asking)


def test_transactions_need_idempotence() -> None:
    with pytest.raises(UserError, match=r"enable\.idempotence"):
        _read(transactional_id="tx", enable_idempotence=False)


def test_one_attempt_fits_into_the_delivery_timeout() -> None:
    assert _read(request_timeout_ms=200_000).delivery_timeout == pytest.approx(200.005)
    with pytest.raises(UserError, match="too short"):
        _read(delivery_timeout_ms=1000)


def test_a_level_is_given_to_its_codec_only() -> None:
    assert _read(compression_type="zstd").level is None
    assert _read(compression_type="zstd", compression_zstd_level=7).level == 7
    assert _read(compression_type="gzip", compression_zstd_level=7).level is None
    with pytest.raises(UserError):
        _read(compression_type="brotli")


def test_the_docs_list_the_settings() -> None:
    text = (Path(__file__).parents[4] / "docs" / "CLIENT.md").read_text()
    table = text.split("<!-- producer settings: begin -->")[1].split("<!-- producer settings: end -->")[0]
    rows = {cells[1].strip(" `"): cells[2:4] for line in table.strip().splitlines()[2:] if (cells := line.split("|"))}
    expected = {name: row for name, row in PRODUCER.items() if name not in COMMON}
    assert rows.keys() == expected.keys()
    for name, (default, doc) in rows.items():
        shown = "" if expected[name].default is None else format_value(expected[name].default) or ""
        assert (default.strip(), doc.strip()) == (shown, expected[name].doc), name
