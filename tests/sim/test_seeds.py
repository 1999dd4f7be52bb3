"""The worlds of `seeds.txt`: each failed once."""

from pathlib import Path

import pytest

from headwater.sim.kinds import KINDS, new_world, quiet

SEEDS = Path(__file__).with_name("seeds.txt")


def known() -> list[tuple[str, int, int]]:
    lines = [line.split(maxsplit=3) for line in SEEDS.read_text().splitlines() if line and not line.startswith("#")]
    assert all(len(line) == 4 for line in lines), "each line says why it is there"
    return [(kind, int(seed), int(steps)) for kind, seed, steps, _ in lines]


@pytest.mark.parametrize(("kind", "seed", "steps"), known())
def test_what_failed_once(kind: str, seed: int, steps: int) -> None:
    assert kind in KINDS
    with quiet():
        new_world(kind, seed).run(steps)
