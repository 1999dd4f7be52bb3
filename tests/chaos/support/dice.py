"""Chance for tests of clusters: from a seed that is printed, and that can be given again."""

import os
import random

SEED = "HEADWATER_CHAOS_SEED"


def chosen_seed() -> int:
    """What processes make of the same choices differs from run to run, but the choices are the same."""
    seed = int(os.environ.get(SEED) or random.randrange(1 << 32))
    print(f"the same choices again: {SEED}={seed}")
    return seed


def dice() -> random.Random:
    return random.Random(chosen_seed())
