"""docs/CLIENT.md lists every setting of the consumer, with its default."""

from pathlib import Path

from headwater.base.config.definition import format_value
from headwater.client.consumer.consumer_settings import CONSUMER
from headwater.client.settings.common import COMMON

GUIDE = Path(__file__).parents[4] / "docs" / "CLIENT.md"


def test_the_guide_lists_the_settings() -> None:
    text = GUIDE.read_text()
    begin, end = text.index("<!-- consumer settings: begin -->"), text.index("<!-- consumer settings: end -->")
    listed = text[begin:end].splitlines()[3:]
    expected = [
        f"| `{name}` | {format_value(row.default) or ''} | {row.doc} |"
        for name, row in sorted(CONSUMER.items())
        if name not in COMMON
    ]
    assert listed == expected
