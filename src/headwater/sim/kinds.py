"""The kinds of worlds by the names under which they are asked for, and how one is made, run and told of."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_storage import ClusterStorageWorld
from headwater.sim.coordination import CoordinatorWorld
from headwater.sim.less import NOTHING, Less
from headwater.sim.stage import SimulationFailed, Stage
from headwater.sim.story import Story
from headwater.sim.world import World

KINDS: Final[dict[str, Callable[..., Stage]]] = {
    "logs": World,
    "coordinators": CoordinatorWorld,
    "cluster": ClusterWorld,
    "cluster-coordinators": ClusterCoordinatorWorld,
    "cluster-storage": ClusterStorageWorld,
}


def new_world(kind: str, seed: int, less: Less = NOTHING) -> Stage:
    return KINDS[kind](seed, less=less)


@contextmanager
def quiet() -> Iterator[None]:
    """Brokers among faults have much to report, and nobody reads it. But clusters listen for exceptions that are only
    written down.
    """
    logger, silence = logging.getLogger("headwater"), logging.NullHandler()
    before, propagates = logging.root.manager.disable, logger.propagate
    logging.disable(logging.WARNING)
    logger.propagate = False
    logger.addHandler(silence)
    try:
        yield
    finally:
        logging.disable(before)
        logger.propagate = propagates
        logger.removeHandler(silence)


def story_of(kind: str, seed: int, steps: int, less: Less = NOTHING) -> str:
    """Of a world that fails: what it says, and what happened to whom that concerns. Empty if it does not fail."""
    logger = logging.getLogger("headwater")
    level, propagates = logger.level, logger.propagate
    story = Story()
    world = new_world(kind, seed, less)
    world.take_down(story)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(story)
    try:
        world.run(steps)
    except SimulationFailed as failure:
        subjects = story.subjects(failure.what)
        head = ", ".join(subjects) if subjects else "the nodes"
        return f"{failure.what}\n\nThe story of {head}:\n\n{story.of(subjects)}\n"
    finally:
        logger.removeHandler(story)
        logger.setLevel(level)
        logger.propagate = propagates
    return ""
