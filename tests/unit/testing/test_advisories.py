"""When the audit of dependencies fails the checks, and that it never takes "could not be asked" for "clean"."""

from pathlib import Path
from typing import Any

import pytest

import advisories
from advisories import KNOWN, ROOT, Answer, Verdict, ask, exit_code, judged, lowest_allowed, told


def report(*packages: dict[str, Any]) -> Answer:
    return Answer({"dependencies": list(packages), "fixes": []})


def sound(name: str) -> dict[str, Any]:
    return {"name": name, "version": "1.0", "vulns": []}


def flawed(name: str, advisory: str = "PYSEC-1", fixed_in: str = "1.1") -> dict[str, Any]:
    flaw = {"id": advisory, "aliases": [f"CVE-{advisory}"], "fix_versions": [fixed_in] if fixed_in else []}
    return {"name": name, "version": "1.0", "vulns": [flaw]}


def unknown(name: str) -> dict[str, Any]:
    return {"name": name, "skip_reason": "Dependency not found"}


BELIEVED = report(flawed("requests"))
SILENT = Answer(None, "Connection refused")


def test_a_clean_report_of_a_service_that_knows_advisories_is_clean() -> None:
    verdict, lines = judged(BELIEVED, [report(sound("a"), sound("b")), report(sound("a"))])
    assert (verdict, lines) == (Verdict.CLEAN, ["no known vulnerability in 3 packages"])


def test_a_finding_is_told_once_with_the_version_that_mends_it() -> None:
    verdict, lines = judged(BELIEVED, [report(sound("a"), flawed("b")), report(flawed("b"), flawed("c", "X-2", ""))])
    assert verdict is Verdict.VULNERABLE
    assert lines == ["b 1.0: PYSEC-1, fixed in 1.1", "c 1.0: X-2, fixed in no version yet"]


def test_a_finding_counts_though_the_service_then_ceased_to_answer() -> None:
    assert judged(BELIEVED, [report(flawed("a")), SILENT])[0] is Verdict.VULNERABLE


@pytest.mark.parametrize(
    ("known", "audited", "why"),
    [
        (SILENT, [], "cannot be asked: Connection refused"),
        (report(sound("requests")), [report(sound("a"))], KNOWN),
        (report(unknown("requests")), [report(sound("a"))], KNOWN),
        (BELIEVED, [report(sound("a")), SILENT], "ceased to answer: Connection refused"),
        (BELIEVED, [report(sound("a"), unknown("b"))], "does not know b"),
    ],
    ids=["unreachable", "without advisories", "not found", "ceased", "unknown package"],
)
def test_what_was_not_audited_is_not_clean(known: Answer, audited: list[Answer], why: str) -> None:
    verdict, lines = judged(known, audited)
    assert verdict is Verdict.NOT_DONE
    assert why in "".join(lines)


@pytest.mark.parametrize(
    ("verdict", "asked_for", "in_checks"), [(Verdict.CLEAN, 0, 0), (Verdict.VULNERABLE, 1, 1), (Verdict.NOT_DONE, 2, 0)]
)
def test_the_checks_go_on_without_a_service_and_nothing_else(verdict: Verdict, asked_for: int, in_checks: int) -> None:
    assert exit_code(verdict, where_reachable=False) == asked_for
    assert exit_code(verdict, where_reachable=True) == in_checks


def test_an_audit_that_was_not_done_is_told_loudly_with_the_reason() -> None:
    lines = told(Verdict.NOT_DONE, ["no route to the service"]).splitlines()
    assert any("WAS NOT DONE" in line for line in lines)
    assert "!! no route to the service" in lines


def test_an_accepted_advisory_is_no_finding_by_its_id_or_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSEC-1", "CVE-PYSEC-1"):
        monkeypatch.setattr(advisories, "ACCEPTED", {name: "we do not call it"})
        assert report(flawed("a")).findings == []
        assert len(report(flawed("a", "PYSEC-2")).findings) == 1


def test_without_pip_audit_nothing_is_audited(tmp_path: Path) -> None:
    assert "not installed" in ask(tmp_path / "pip-audit", tmp_path, [KNOWN], None).why_not


def test_lowest_versions_are_those_of_every_extra_but_the_package_itself() -> None:
    text = """
    [project]
    name = "own"
    dependencies = ["click>=8.1"]
    [project.optional-dependencies]
    spark = ["pyspark>=4.3,<4.4", "PyMySQL[rsa]>=1.1.1", "click>=8.2"]
    all = ["own[spark]"]
    """
    assert lowest_allowed(text) == ["PyMySQL==1.1.1", "click==8.1", "click==8.2", "pyspark==4.3"]


def test_a_dependency_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="h2 of pyproject"):
        lowest_allowed('[project]\nname = "own"\ndependencies = ["h2"]\noptional-dependencies = {}\n')


def test_every_dependency_of_ours_has_a_lower_bound() -> None:
    assert len(lowest_allowed((ROOT / "pyproject.toml").read_text())) > 20
