"""Batches of files, with drivers that die at each step and others that sleep meanwhile: each batch is there once, and
whole, and what readers saw stays.
"""

import contextlib
import itertools
from collections.abc import Callable

import pytest

from headwater.base.errors import UserError
from headwater.spark.sinks import files_by_batch
from headwater.spark.sinks.files_by_batch import committed, is_visible, write_batch

NAME = "0000000007-query"
PARTS = 2
MANIFEST = f"/out/{files_by_batch.MANIFESTS}/{NAME}"


class Died(Exception):
    pass


class MemoryFiles:
    """Paths of files and their text. `before` is called before each step."""

    def __init__(self, disk: dict[str, str], before: Callable[[], None] = lambda: None) -> None:
        self.disk, self._before = disk, before

    def files_under(self, path: str) -> list[str]:
        self._before()
        return [each[len(path) + 1 :] for each in self.disk if each.startswith(f"{path}/")]

    def names_in(self, path: str) -> list[str]:
        self._before()
        return sorted({each[len(path) + 1 :].split("/")[0] for each in self.disk if each.startswith(f"{path}/")})

    def exists(self, path: str) -> bool:
        self._before()
        return path in self.disk or any(each.startswith(f"{path}/") for each in self.disk)

    def rename(self, source: str, target: str) -> None:
        if not self.rename_once(source, target):
            raise UserError(f"{target} is there already")

    def rename_once(self, source: str, target: str) -> bool:
        if self.exists(target):
            return False
        self._before()
        if any(each.startswith(f"{target}/") for each in self.disk):
            return False
        moved = [each for each in self.disk if each.startswith(f"{source}/")]
        if not moved:
            raise UserError(f"{source} is not there")
        for each in moved:
            self.disk[target + each[len(source) :]] = self.disk.pop(each)
        return True

    def renames_at_once(self, _path: str) -> bool:
        return True

    def delete(self, path: str) -> None:
        """File by file, as on a local disk."""
        for each in [each for each in self.disk if each == path or each.startswith(f"{path}/")]:
            self._before()
            self.disk.pop(each, None)

    def write_text(self, path: str, text: str, aside: str) -> None:
        self._before()
        self.disk[aside] = text
        taken = self.exists(path)
        self._before()
        if taken:
            self.disk.pop(aside, None)
            raise UserError(f"{path} is there already")
        if aside not in self.disk:
            raise OSError(f"{aside} was removed")
        self.disk[path] = self.disk.pop(aside)


class ObjectFiles(MemoryFiles):
    """A rename copies each object, and then deletes each."""

    def renames_at_once(self, _path: str) -> bool:
        return False

    def rename_once(self, source: str, target: str) -> bool:
        if self.exists(target):
            return False
        for each in [each for each in self.disk if each.startswith(f"{source}/")]:
            self._before()
            self.disk[target + each[len(source) :]] = self.disk[each]
        self.delete(source)
        return True


def driver(
    disk: dict[str, str], who: str, before: Callable[[int], None], kind: type[MemoryFiles] = MemoryFiles
) -> None:
    """One that writes the batch; `before` is given the number of each step and may raise `Died`."""
    steps = itertools.count()
    files = kind(disk, lambda: before(next(steps)))

    def write(path: str) -> None:
        for part in range(PARTS):
            before(next(steps))
            disk[f"{path}/part-{part}"] = who

    write_batch(files, "/out", NAME, who, write)


def visible(disk: dict[str, str]) -> dict[str, str] | None:
    found = committed(MemoryFiles(disk), "/out")
    return {each: disk[each] for each in disk for path in found if each.startswith(f"{path}/")} if found else None


def story(asleep_at: int, dies_at: int, late_dies_at: int = -1) -> int:
    """A sleeps before a step while B writes the same batch, which may die at one; then A goes on, and may die; at last
    C comes. How many steps B made.
    """
    disk: dict[str, str] = {}
    seen: list[dict[str, str]] = []
    made = 0

    def watch() -> None:
        now = visible(disk)
        assert not seen or now == seen[0], "what readers saw has changed"
        if now is not None and not seen:
            assert len(now) == PARTS, "it is visible and not whole"
            assert len(set(now.values())) == 1, "two tries are mixed"
            seen.append(now)

    def of_b(step: int) -> None:
        nonlocal made
        watch()
        made = step + 1
        if step == dies_at:
            raise Died

    def of_a(step: int) -> None:
        watch()
        if step == asleep_at:
            run("B", of_b)
        if step == late_dies_at:
            raise Died

    def run(who: str, before: Callable[[int], None]) -> None:
        with contextlib.suppress(Died):
            driver(disk, who, before)
        watch()

    run("A", of_a)
    run("C", lambda _step: watch())
    assert seen, "the batch is not there"
    assert not [each for each in disk if not each.startswith((f"/out/{NAME}/", MANIFEST))], "leftovers"
    return made


def every_story(longest: int) -> None:
    for asleep_at, dies_at, late_dies_at in itertools.product(range(-1, longest), repeat=3):
        story(asleep_at, dies_at, late_dies_at)


def test_a_batch_is_there_once_whoever_dies_or_sleeps_when() -> None:
    steps = story(0, -1)
    assert steps > 6, "B wrote the batch"
    every_story(steps + 6)


def test_a_try_that_is_still_written_loses_no_part_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model finds what the sweep before the first write did: files that count were removed by a late driver."""
    honest = files_by_batch.write_batch

    def sweeps_first(files: MemoryFiles, root: str, name: str, attempt: str, write: Callable[[str], None]) -> None:
        if not files.exists(f"{root}/{files_by_batch.MANIFESTS}/{name}"):
            files.delete(f"{root}/{name}")
        honest(files, root, name, attempt, write)

    monkeypatch.setitem(globals(), "write_batch", sweeps_first)
    with pytest.raises((AssertionError, UserError)):
        every_story(12)


def test_a_driver_that_dies_while_an_object_store_copies_leaves_nothing_that_counts() -> None:
    """Two drivers die one after the other, at any step; the third one writes the batch."""
    steps = itertools.count()
    driver({}, "nobody dies", lambda _step: next(steps) and None, ObjectFiles)
    longest = next(steps) + 2 * PARTS  # the second one also removes what the first one left
    assert longest > 10, "each object is a step"
    for deaths in itertools.product(range(longest), repeat=2):
        disk: dict[str, str] = {}

        def whole_if_visible(disk: dict[str, str] = disk) -> None:
            now = visible(disk)
            assert now is None or (len(now) == PARTS and len(set(now.values())) == 1), "visible and not whole"

        for who, dies_at in zip("AB", deaths, strict=True):

            def before(step: int, dies_at: int = dies_at, look: Callable[[], None] = whole_if_visible) -> None:
                look()
                if step == dies_at:
                    raise Died

            with contextlib.suppress(Died):
                driver(disk, who, before, ObjectFiles)
        driver(disk, "C", lambda _step: None, ObjectFiles)
        whole_if_visible()
        assert visible(disk), "the batch is not there"
        assert not [each for each in disk if not each.startswith((f"/out/{NAME}/", MANIFEST))], "leftovers"


def test_files_that_were_lost_in_a_copy_keep_the_batch_invisible() -> None:
    class Forgetful(ObjectFiles):
        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            del self.disk[f"{target}/part-0"]

    disk: dict[str, str] = {}
    with pytest.raises(UserError, match="does not have the files"):
        driver(disk, "A", lambda _step: None, Forgetful)
    assert visible(disk) is None


@pytest.mark.parametrize("kind", [MemoryFiles, ObjectFiles])
def test_a_batch_whose_driver_died_is_visible_once_it_has_its_name(kind: type[MemoryFiles]) -> None:
    """Who asks does not write it again: one that is whole gets its manifest, and any other is not there for readers."""
    outcomes = []
    for last in itertools.count():
        disk: dict[str, str] = {}

        def before(step: int, last: int = last) -> None:
            if step == last:
                raise Died

        with contextlib.suppress(Died):
            driver(disk, "a", before, kind)
            break
        files = kind(disk)
        whole = is_visible(files, "/out", NAME)
        assert whole == bool(committed(files, "/out"))
        if whole:
            assert [disk[f"/out/{NAME}/part-{part}"] for part in range(PARTS)] == ["a"] * PARTS
        assert is_visible(files, "/out", NAME) == whole
        outcomes.append(whole)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
