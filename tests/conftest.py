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

# What tests and their stages are told. Any other HEADWATER_ variable is for the commands of whoever runs the tests: it
# would lead what they start to his brokers and his data.
FOR_TESTS = (
    "HEADWATER_REQUIRE_ALL", "HEADWATER_SOAK", "HEADWATER_PURE", "HEADWATER_CHAOS_SEED", "HEADWATER_KILLS", "HEADWATER_SIM_SEEDS",
    "HEADWATER_LOG_WORLD", "HEADWATER_CONNECT_ROUNDS", "HEADWATER_COMPAT_TARGET", "HEADWATER_RECORD",
)  # fmt: skip
for _name in [each for each in os.environ if each.startswith("HEADWATER_") and each not in FOR_TESTS]:
    del os.environ[_name]

REQUIRE_ALL = os.environ.get("HEADWATER_REQUIRE_ALL") == "1"
SOAK = os.environ.get("HEADWATER_SOAK") == "1"  # `make soak`

# A machine that is busy for a moment is not a failure. Where every test must pass, the examples are the same each time;
# new ones are looked for in all other runs.
settings.register_profile(
    "headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=REQUIRE_ALL
)
settings.load_profile("headwater")


# A shell makes what it starts in the background deaf to Ctrl-C,
# and that is inherited by what tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CLUSTERS = ("test_cluster_cli", "test_zookeeper", "test_s2_labs")
WITHOUT_SPARK = ("test_exactly_once_steps", "test_sink_stores")  # what they test is part of a pipeline, but starts none


# The files that take longest come first: a stage would end with one worker that is busy and others that wait for it.
LONGEST = (
    "test_sink_kills", "test_exactly_once_kills", "test_connect_slots", "test_sql_on_spark", "test_streams_on_spark",
    "test_connect_on_spark", "test_cluster_exactly_once", "test_demo", "test_use_case_with_spark",
    "test_storm", "test_kills", "test_cuts", "test_zookeeper_failures", "test_transactions_copies", "test_moves",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _mark_by_needs(items)
    _leave_out_what_is_for_soak(config, items)
    # Stable: the order within a file, and of all other files, is the one that was drawn.
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def _leave_out_what_is_for_soak(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`soak(only=True)`: long whatever its rounds are, and with a short sibling that `make test` runs."""
    left_out = [] if SOAK else [item for item in items if _is_for_soak_alone(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_for_soak_alone(item)]


def _is_for_soak_alone(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("soak")
    return mark is not None and bool(mark.kwargs.get("only"))


def _mark_by_needs(items: list[pytest.Item]) -> None:
    """Tests that start a ZooKeeper and several brokers, or Spark: `make test` runs them after the others, few at a
    time.
    """
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder == "chaos" or (folder == "compat" and item.path.name.startswith(CLUSTERS)):
            item.add_marker(pytest.mark.cluster)
        elif folder == "spark" and not item.path.name.startswith(WITHOUT_SPARK):
            item.add_marker(pytest.mark.spark)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: to look through it for garbage again and again is a fifth of a simulation's
    time.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What is frozen, also by servers and slots that tests have run in this process, is not freed when the interpreter
    ends: DuckDB tells then of hundreds of "leaked" objects.
    """
    gc.unfreeze()


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
