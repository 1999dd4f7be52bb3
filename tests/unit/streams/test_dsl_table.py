"""docs/STREAMS_DSL.md has every method of Kafka Streams' DSL, and what it names is there."""

import inspect
import re
from pathlib import Path

import pytest

from unit.streams.dsl_table import CLASSES, KNOWN, METHODS, OTHERS, ours, table

ROOT = Path(__file__).parents[3]
ROWS = [(kind, method) for kind, methods in METHODS.items() for method in methods]


def test_the_table_is_that_of_the_docs() -> None:
    assert (ROOT / "docs/STREAMS_DSL.md").read_text() == table(), (
        "PYTHONPATH=tests python -m unit.streams.test_dsl_table writes it anew"
    )


@pytest.mark.parametrize(("kind", "method"), ROWS)
def test_what_is_named_is_there(kind: str, method: str) -> None:
    named = re.findall(r"`([A-Za-z_.]+)(?:\((\w+)=\))?`", ours(kind, method))
    assert named or method in OTHERS.get(kind, {}), f"{kind}.{method} is neither there nor named with a reason"
    for path, parameter in named:
        first, _, rest = path.partition(".")
        assert first in KNOWN, path
        found = getattr(KNOWN[first], rest) if rest else KNOWN[first]
        assert not parameter or parameter in inspect.signature(found).parameters, f"{path} has no {parameter}"


def test_no_row_is_about_a_method_that_kafka_streams_lacks() -> None:
    assert {(kind, method) for kind, methods in OTHERS.items() for method in methods} <= set(ROWS)
    assert set(CLASSES) <= set(METHODS)


if __name__ == "__main__":
    (ROOT / "docs/STREAMS_DSL.md").write_text(table())
