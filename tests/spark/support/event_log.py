"""Spark's event log, as far as tests ask it: which jobs began, and why tasks ended."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def events(folder: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    """Of Spark's log; the last line may be half of one."""
    for path in folder.rglob("events_*"):
        for line in path.read_text().splitlines():
            if line.endswith("}") and any(f'"Event":"{kind}"' in line for kind in kinds):
                yield json.loads(line)


def task_ends(folder: Path) -> list[tuple[str, bool]]:
    """Why tasks ended, and whether they were slots."""
    found, slots = [], set()
    for event in events(folder, "SparkListenerJobStart", "SparkListenerTaskEnd"):
        if "Properties" in event:
            slots |= set(event["Stage IDs"]) if is_of_slots(event) else set()
        else:
            found.append((event["Task End Reason"]["Reason"], event["Stage ID"] in slots))
    return found


def given_up(folder: Path) -> list[str]:
    """Why Spark gave jobs up after it had tried a task too often."""
    results = [event["Job Result"] for event in events(folder, "SparkListenerJobEnd")]
    told = [str(result.get("Exception", {}).get("Message", "")) for result in results]
    return [each for each in told if re.search(r"failed \d+ times", each)]


def is_of_slots(job: dict[str, Any]) -> bool:
    return str(job["Properties"].get("spark.job.description")).startswith("headwater slots")


def batch_jobs(folder: Path) -> int:
    """How many jobs have begun that are no slots. Spark writes each out when it begins."""
    return sum(not is_of_slots(job) for job in events(folder, "SparkListenerJobStart"))
