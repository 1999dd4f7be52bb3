"""What the table calls used is read somewhere, and what is read is not called without effect."""

from pathlib import Path

import headwater
from headwater.base.config.table import BROKER, TOPIC

PACKAGE = Path(headwater.__file__).parent
CONFIG = PACKAGE / "base" / "config"

SOURCE = "\n".join(
    path.read_text()
    for path in sorted(PACKAGE.rglob("*.py"))
    if (path.parent != CONFIG or path.name in ("broker.py", "group.py", "listener_config.py"))
    and "cli" not in path.parts
)


def is_read(name: str) -> bool:
    return f'"{name}"' in SOURCE


def stands_in_for_a_topic(name: str) -> bool:
    return any(name == synonym.name for d in TOPIC.values() if d.used for synonym in d.synonyms)


def test_broker_properties_that_are_said_to_have_an_effect_are_read() -> None:
    silent = [n for n, d in BROKER.items() if d.used and not is_read(n) and not stands_in_for_a_topic(n)]
    assert silent == []


def test_topic_configs_that_are_said_to_have_an_effect_are_read() -> None:
    levels = {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    }  # read by a name put together
    assert [n for n, d in TOPIC.items() if d.used and not is_read(n) and n not in levels] == []


def test_topic_configs_without_effect_are_not_read() -> None:
    assert [n for n, d in TOPIC.items() if not d.used and is_read(n)] == []
