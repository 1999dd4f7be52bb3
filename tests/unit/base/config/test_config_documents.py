"""docs/CONFIG.md is what the table says, and the sample file loads without a warning."""

import subprocess
import sys
from pathlib import Path

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.document import document
from headwater.base.config.table import BROKER, TOPIC

ROOT = Path(__file__).parents[4]


def test_the_page_is_up_to_date() -> None:
    hint = "run: python -m headwater.base.config.document > docs/CONFIG.md"
    assert (ROOT / "docs" / "CONFIG.md").read_text() == document(), hint


def test_the_page_has_every_config() -> None:
    page = document()
    for definition in [*BROKER.values(), *TOPIC.values()]:
        if definition.used and not definition.hidden:
            assert f"| `{definition.name}` |" in page
        elif not definition.hidden:
            assert f"`{definition.name}`" in page


def test_the_sample_file_loads() -> None:
    config, warnings = BrokerConfig.load(str(ROOT / "config" / "server.properties"))
    assert warnings == []
    assert config.log_dirs() == ["/var/lib/headwater"]


def test_start_up_stays_light() -> None:
    """It is on the way to a broker that is ready in 300 ms: none of the slow modules may come with it."""
    program = (
        "import sys, headwater.base.config.broker, headwater.base.names; "
        "print([m for m in ('asyncio', 'ctypes', 'dataclasses', 'difflib', 'inspect', 'json', 'socket') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    assert ran.stdout.strip() == "[]"
