"""What `make fuzz` looks for at length in the readers of logins and of `sasl.jaas.config`, for a moment: they end in an
answer or in a refusal, never in anything else, and no refusal has a secret in it.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from hostile.support.frames import LIES
from hostile.support.targets import JAAS_SEEDS, SASL_SEEDS, Targets
from hostile.support.watched import watched

WHERE = st.lists(st.tuples(st.integers(0, 1 << 8), st.sampled_from((*LIES, b",", b"=", b'"', b"\0")), st.booleans()))
MANY = settings(
    max_examples=lasting(300, 15_000),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

pytestmark = pytest.mark.timeout(lasting(300, 3600))


def changed(data: bytes, where: list[tuple[int, bytes, bool]], first: int, cut: int) -> bytes:
    """With a few bytes put in or written over, not before `first`, and sometimes without its end."""
    out = bytearray(data)
    for at, lie, is_put_in in where:
        begin = first + at % max(1, len(out) - first)
        out[begin : begin if is_put_in else begin + len(lie)] = lie
    return bytes(out[: len(out) - cut] if 0 < cut < len(out) - first else out)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    directory: Path = tmp_path_factory.mktemp("fuzzed")
    with watched(directory) as broker:
        return Targets(broker)  # these two ask no broker


@MANY
@given(st.sampled_from(SASL_SEEDS), WHERE, st.integers(0, 200))
def test_messages_of_logins(targets: Targets, seed: bytes, where: list[tuple[int, bytes, bool]], cut: int) -> None:
    targets.sasl(changed(seed, where, 1, cut))


@MANY
@given(st.sampled_from(JAAS_SEEDS), WHERE, st.integers(0, 200))
def test_jaas_configs(targets: Targets, seed: bytes, where: list[tuple[int, bytes, bool]], cut: int) -> None:
    targets.jaas(changed(seed, where, 0, cut))
