"""Whether a worker has slots, and how many."""

from collections.abc import Mapping

from headwater.connect.config.worker import WorkerConfig
from headwater.connect.runtime.worker import Worker
from headwater.connect.slots.task_slots import Answerer, RunSlot, TaskSlots, spark_supply


def wants_slots(config: WorkerConfig, *, in_group: bool) -> bool:
    """A worker of a group has slots where it has a master; one alone only where it is told to."""
    wanted: int | None = config["task.slots"]
    if wanted is not None:
        return wanted > 0
    return in_group and bool(config["spark.master"])


def open_slots(worker: Worker, answers: Mapping[str, Answerer], run_slot: RunSlot) -> TaskSlots:
    """No JVM begins before a task needs one."""
    worker.spark.has_slots = True
    supply, place = spark_supply(worker.spark, worker.config["task.slots"], run_slot)
    slots = TaskSlots(worker.config.props, answers, supply, place)
    worker.slots = slots
    return slots
