"""Every statement of docs/SQL.md is one: those that need no server are carried out, in their order, the others are
parsed.
"""

import re
from pathlib import Path

from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.language.parser import parse, split
from headwater.sql.plan.session import Session

_PAGE = (Path(__file__).parents[3] / "docs" / "SQL.md").read_text()
_BLOCKS = re.findall(r"```sql\n(.*?)```", _PAGE, re.DOTALL)


def test_the_examples_of_statements_are_carried_out() -> None:
    (block,) = [each for each in _BLOCKS if "CREATE STREAM by_customer" in each]
    session = Session(schemas=MemorySchemas(), functions_allowed=EVERYTHING)
    session.run(block)
    assert session.queries == {}  # the last statements terminate and drop
    assert {"ORDERS", "TOTALS", "HOURLY", "KNOWN", "PAIRS"} <= set(session.catalog.sources)
    assert "TITLED" not in session.catalog.sources


def test_all_examples_are_statements() -> None:
    assert len(_BLOCKS) >= 4
    for block in _BLOCKS:
        for piece in split(block):
            if "${" not in piece:
                assert len(parse(piece)) == 1
