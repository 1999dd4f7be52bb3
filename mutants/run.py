"""Applies the patches beside this file one at a time and runs the test that must notice:
`make mutants [ONLY=part-of-a-name]`.

A patch begins with two lines of its own, `What:` (the promise that it takes out) and `Test:` (what to run, as pytest is
told it), and goes on as a unified diff against the repository. Each is applied to a copy of `src`, never to the tree. A
mutant that survives, a patch that no longer applies and a test that does not end are failures alike: a checker that
cannot fail proves nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
HERE: Final = ROOT / "mutants"
TIMEOUT_S: Final = 240
AT_ONCE: Final = max(1, (os.cpu_count() or 2) // 2)
_TESTS_FAILED: Final = 1  # pytest's exit code; all others but 0 say that it could not run them


class Mutant(NamedTuple):
    path: Path
    what: str
    tests: list[str]

    @property
    def name(self) -> str:
        return self.path.stem


def mutants(only: str = "") -> Iterator[Mutant]:
    for path in sorted(HERE.glob("*.patch")):
        what, test, *_ = path.read_text().split("\n", 2)
        if not what.startswith("What: ") or not test.startswith("Test: "):
            raise SystemExit(f"{path}: does not begin with What: and Test:")
        if only in path.stem:
            yield Mutant(path, what.removeprefix("What: "), test.removeprefix("Test: ").split())


def applies(mutant: Mutant, root: Path = ROOT, *, check_only: bool = True) -> str:
    """What is wrong with the patch; nothing if it applies."""
    command = ["git", "apply", *(["--check"] if check_only else []), str(mutant.path)]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)
    return done.stderr.strip() if done.returncode else ""


class Verdict(NamedTuple):
    found_out: bool
    why: str  # what the test said, or what is wrong


def judge(mutant: Mutant) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="headwater-mutant-") as directory:
        copy = Path(directory)
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
        problem = applies(mutant, copy, check_only=False)
        if problem:
            return Verdict(False, f"no longer applies: {problem}")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HEADWATER_SIM_SEEDS": "600",
            "HEADWATER_PURE": "1",  # the patches are of Python: nothing compiled may stand in its place
        }
        where = "import headwater.broker; print(headwater.broker.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", where], env=environment, capture_output=True, text=True, check=True
        ).stdout
        if not found.startswith(directory):
            return Verdict(False, f"the test would run against {found.strip()}")
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(False, f"the test did not end within {TIMEOUT_S} s")
    if done.returncode == 0:
        return Verdict(False, "the test noticed nothing")
    if done.returncode != _TESTS_FAILED:
        return Verdict(False, f"the test could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    said = [line.removeprefix("E").strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    return Verdict(
        True, said[-1] if len(said) == 1 else next((line for line in said if "Error" in line or "Failed" in line), "")
    )


def main() -> int:
    found = list(mutants(*sys.argv[1:2]))
    if not found:
        sys.stderr.write("no such mutant\n")
        return 2

    def tell(mutant: Mutant) -> bool:
        began = time.monotonic()
        verdict = judge(mutant)
        word = "found out" if verdict.found_out else "SURVIVES"
        sys.stdout.write(f"{word:<9} {time.monotonic() - began:5.1f} s  {mutant.name}: {mutant.what}\n")
        sys.stdout.write(f"{'':<19}{verdict.why}\n")
        sys.stdout.flush()
        return verdict.found_out

    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = list(pool.map(tell, found))
    sys.stdout.write(f"{verdicts.count(True)} of {len(verdicts)} mutants found out\n")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
