"""Whether vulnerabilities are known of what is installed here, and of the lowest versions that pyproject.toml allows.

pip-audit asks the service of advisories. That is believed only after it has told of a vulnerability that everybody
knows (`KNOWN`): of a service that has no advisories, pip-audit says that everything is sound. So there are three
verdicts, and "not done" is never taken for "clean": `make audit` ends well only if all was audited and is clean; the
checks (`--where-reachable`) go on where no service can be reached, and say so in words that nobody overlooks.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
KNOWN = "requests==2.19.0"  # CVE-2018-18074, CVE-2023-32681 and more
ACCEPTED: dict[str, str] = {}  # advisories that do not concern us: their id, and why not
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:[<>=!~0-9.,]*?)>=([0-9.]+)")
ANSWER_S, TOGETHER_S = 15, 180


class Verdict(Enum):
    CLEAN = "clean"
    VULNERABLE = "vulnerable"
    NOT_DONE = "not done"


class Finding(NamedTuple):
    package: str
    version: str
    advisory: str
    fixed_in: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}: {self.advisory}, fixed in {self.fixed_in or 'no version yet'}"


class Answer(NamedTuple):
    """What pip-audit says of some packages: its report, or why there is none."""

    report: dict[str, Any] | None
    why_not: str = ""

    @property
    def findings(self) -> list[Finding]:
        return [
            Finding(each["name"], each["version"], flaw["id"], ", ".join(flaw["fix_versions"]))
            for each in (self.report or {}).get("dependencies", [])
            for flaw in each.get("vulns", [])
            if ACCEPTED.keys().isdisjoint([flaw["id"], *flaw["aliases"]])
        ]

    @property
    def unaudited(self) -> list[str]:
        """Packages that the service does not know."""
        return [each["name"] for each in (self.report or {}).get("dependencies", []) if "skip_reason" in each]


def judged(known: Answer, audited: Sequence[Answer]) -> tuple[Verdict, list[str]]:
    """The verdict, and the lines that say why. A finding counts though other packages could not be asked about."""
    if known.report is None:
        return Verdict.NOT_DONE, [f"the service of advisories cannot be asked: {known.why_not}"]
    if not known.findings:
        return Verdict.NOT_DONE, [f"the service tells nothing of {KNOWN}, which is known to be vulnerable"]
    findings = [finding for answer in audited for finding in answer.findings]
    if findings:
        return Verdict.VULNERABLE, [str(finding) for finding in dict.fromkeys(findings)]
    failed = [answer.why_not for answer in audited if answer.report is None]
    if failed:
        return Verdict.NOT_DONE, [f"the service ceased to answer: {why}" for why in failed]
    unaudited = sorted({name for answer in audited for name in answer.unaudited})
    if unaudited:
        return Verdict.NOT_DONE, [f"the service does not know {', '.join(unaudited)}; all others are clean"]
    count = sum(len(answer.report["dependencies"]) for answer in audited if answer.report)
    return Verdict.CLEAN, [f"no known vulnerability in {count} packages"]


def told(verdict: Verdict, lines: Sequence[str]) -> str:
    if verdict is Verdict.CLEAN:
        return f"Audit of dependencies: {lines[0]}\n"
    if verdict is Verdict.VULNERABLE:
        what, hint = "DEPENDENCIES HAVE KNOWN VULNERABILITIES", "raise the lower bound in pyproject.toml, and install"
    else:
        what = "THE AUDIT OF DEPENDENCIES WAS NOT DONE: vulnerabilities of them would not have been noticed"
        hint = "where a service can be reached: make audit, or make audit OSV_URL=https://.../v1/query"
    return "".join(f"!! {line}\n" for line in ("=" * len(what), what, *lines, hint, "=" * len(what)))


def exit_code(verdict: Verdict, *, where_reachable: bool) -> int:
    if verdict is Verdict.NOT_DONE:
        return 0 if where_reachable else 2
    return 0 if verdict is Verdict.CLEAN else 1


def lowest_allowed(pyproject: str) -> list[str]:
    """Of the package's own dependencies and extras, as pins. Each has a lower bound."""
    project = tomllib.loads(pyproject)["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    pins = []
    for requirement in wanted:
        if requirement.startswith(f"{project['name']}["):
            continue
        bound = REQUIREMENT.match(requirement)
        if bound is None:
            raise ValueError(f"{requirement} of pyproject.toml has no lower bound")
        pins.append(f"{bound[1]}=={bound[2]}")
    return sorted(set(pins))


def ask(pip_audit: Path, folder: Path, pins: Sequence[str], osv_url: str | None) -> Answer:
    """pip-audit ends with 1 at a finding and at a failure alike: the report is what tells them apart."""
    if not pip_audit.exists():
        return Answer(None, "pip-audit is not installed, and could not be")
    wanted, report = folder / "wanted.txt", folder / "report.json"
    wanted.write_text("\n".join(pins) + "\n")
    report.unlink(missing_ok=True)
    service = ["--vulnerability-service", "osv", "--osv-url", osv_url] if osv_url else []
    command = [str(pip_audit), "--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", str(ANSWER_S)]
    command += ["--format", "json", "--output", str(report), "--requirement", str(wanted), *service]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TOGETHER_S, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, f"no answer within {TOGETHER_S} s")
    if not report.exists():
        return Answer(None, (ended.stderr.strip() or f"pip-audit ended with {ended.returncode}").splitlines()[-1])
    return Answer(json.loads(report.read_text()))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("installed", type=Path, help="what `pip freeze` tells")
    arguments.add_argument("--pip-audit", type=Path, required=True)
    arguments.add_argument("--osv-url", help="another service, which speaks OSV's API")
    arguments.add_argument("--where-reachable", action="store_true", help="end well where no service can be reached")
    given = arguments.parse_args()
    folder = given.installed.parent
    known = ask(given.pip_audit, folder, [KNOWN], given.osv_url)
    audited = []
    if known.findings:
        lowest: dict[str, list[str]] = {}  # one version of a package at a time
        for pin in lowest_allowed((ROOT / "pyproject.toml").read_text()):
            lowest.setdefault(pin.partition("==")[0].lower(), []).append(pin)
        audited = [ask(given.pip_audit, folder, given.installed.read_text().split("\n"), given.osv_url)]
        for turn in range(max(map(len, lowest.values()))):
            if audited[-1].report is None:
                break  # a service that has ceased to answer is not waited for again
            pins = [pins[turn] for pins in lowest.values() if len(pins) > turn]
            audited.append(ask(given.pip_audit, folder, pins, given.osv_url))
    verdict, lines = judged(known, audited)
    message = told(verdict, lines)
    (folder / "verdict.txt").write_text(message)
    print(message, end="", file=sys.stderr)
    return exit_code(verdict, where_reachable=given.where_reachable)


if __name__ == "__main__":
    sys.exit(main())
