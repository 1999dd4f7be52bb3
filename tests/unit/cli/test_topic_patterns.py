"""Topics as Kafka's tools let them be named."""

import pytest

from headwater.cli.kafka import get_offsets
from headwater.cli.kafka.options import Usage
from headwater.cli.kafka.topic_patterns import topic_pattern


@pytest.mark.parametrize(
    "text", ["orders,bills", " orders, bills ", "'orders,bills'", '"orders|bills"', "o.ders,b.lls"]
)
def test_topics_with_commas_between_them(text: str) -> None:
    wanted = topic_pattern(text)
    assert [name for name in ("orders", "bills", "orders2", "x") if wanted.fullmatch(name)] == ["orders", "bills"]


def test_what_is_no_pattern_is_told_as_it_was_written() -> None:
    with pytest.raises(Usage, match=r"^a,\[ is an invalid regex\. \("):
        topic_pattern("a,[")


@pytest.mark.parametrize("option", ["--topic", "--topic-partitions"])
def test_get_offsets_tells_of_a_bad_pattern_without_a_traceback(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert get_offsets.script(["--bootstrap-server", "localhost:1", option, "["]) == 1
    assert capsys.readouterr().err.startswith("Error occurred: [ is an invalid regex. (")
