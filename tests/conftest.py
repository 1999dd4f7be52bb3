"""What all tests share: `require` for tools that a machine may lack, and no silent skips where all must run.

With HEADWATER_REQUIRE_ALL=1 (`.ci/run` sets it) a skip is a failure: a green run then means that every test ran.
"""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REQUIRE_ALL = os.environ.get("HEADWATER_REQUIRE_ALL") == "1"

# A machine that is busy for a moment is not a failure. Where every test must pass, the examples are the same each time;
# new ones are looked for in all other runs.
settings.register_profile(
    "headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=REQUIRE_ALL
)
settings.load_profile("headwater")


# A shell makes what it starts in the background deaf to Ctrl-C, and that is inherited by what tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CLUSTERS = ("test_cluster_cli", "test_zookeeper", "test_s2_labs")
WITHOUT_SPARK = ("test_exactly_once_steps", "test_sink_stores")  # what they test is part of a pipeline, but starts none


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start a ZooKeeper and several brokers, or Spark: `make test` runs them after the others, few at a time."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder == "chaos" or (folder == "compat" and item.path.name.startswith(CLUSTERS)):
            item.add_marker(pytest.mark.cluster)
        elif folder == "spark" and not item.path.name.startswith(WITHOUT_SPARK):
            item.add_marker(pytest.mark.spark)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: to look through it for garbage again and again is a fifth of a simulation's time."""
    gc.collect()
    gc.freeze()


def require(tool: str) -> str:
    """The path of a program, or a skip that names it."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed (tests/tools.sh gets it where it can)")
    return path


@pytest.fixture(name="require", scope="session")
def require_fixture() -> Callable[[str], str]:
    """`require` for tests: conftest files cannot be imported."""
    return require


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"HEADWATER_REQUIRE_ALL=1 and this was skipped. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: object) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
