"""Whether one JSON Schema takes what another one described: change by change, by the kinds of `kinds.py`. Pure.

`Comparison.compare(old, new)` gives every change from the writer's schema to the reader's, with paths relative to the
two; a change is kept even where it does no harm, because a combination asks which of its parts match at all. Each pair
of shapes is looked at once; a pair that is being looked at counts as fitting, which ends recursion. If it turns out not
to fit, and the whole seems to, what was found within it may be wrong: all is looked at again with what is known then.
What a pair hands on to each place that it stands at is work, too: so the number of changes is limited.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from headwater.schemas.jsonschema import containers, scalars
from headwater.schemas.jsonschema.changes import Change, below
from headwater.schemas.jsonschema.kinds import COMPATIBLE, sentence
from headwater.schemas.jsonschema.shapes import Shape, Shapes
from headwater.schemas.model import Budget, Incompatibility, SchemaError, Sides

_PAIRS_DEEP_MAX: Final = 120
_ANNOTATIONS: Final = (
    ("ID_CHANGED", "$id"),
    ("TITLE_CHANGED", "title"),
    ("DESCRIPTION_CHANGED", "description"),
    ("DEFAULT_CHANGED", "default"),
)


def changes(
    old: Shapes, old_root: Any, new: Shapes, new_root: Any, compatible: frozenset[str] = COMPATIBLE
) -> list[Change]:
    known: dict[tuple[int, int], list[Change]] = {}  # pairs that do not fit
    again = Budget()  # of all rounds behind the first one
    while True:
        comparison = Comparison(old, new, compatible, known)
        if known:
            comparison.budget = again
        found = comparison.compare(old_root, new_root)
        misfits = comparison.misfits()
        if not comparison.assumed or not comparison.fits(found) or misfits.keys() <= known.keys():
            return found
        known = {**known, **misfits}


def differences(
    reader: tuple[Shapes, Any], writer: tuple[Shapes, Any], sides: Sides, compatible: frozenset[str] = COMPATIBLE
) -> list[Incompatibility]:
    """`compatible`: the kinds of change that do no harm."""
    found = changes(*writer, *reader, compatible)
    return [
        Incompatibility(change.kind, f"#{change.path or '/'}", f"Found incompatible change at '#{change.path or '/'}' in the {sides.reader} schema: {sentence(change.kind)}")
        for change in dict.fromkeys(found)
        if change.kind not in compatible
    ]  # fmt: skip


class Comparison:
    """`known`: changes of pairs that do not fit, from an earlier round. `assumed`: a pair within itself was taken to
    fit, and nobody knew whether it does.
    """

    def __init__(
        self,
        old: Shapes,
        new: Shapes,
        compatible: frozenset[str] = COMPATIBLE,
        known: Mapping[tuple[int, int], list[Change]] = MappingProxyType({}),
    ) -> None:
        self.old = old
        self.new = new
        self._compatible = compatible
        self.budget = Budget()
        self.expressions: dict[str, Any] = {}  # patterns of properties, compiled; None: not by RE2
        self._depth = 0
        self._seen: dict[tuple[int, int], list[Change]] = {}
        self._open: set[tuple[int, int]] = set()
        self._known = known
        self.assumed = False
        self._turned: Comparison | None = None

    def fits(self, found: list[Change]) -> bool:
        return all(change.kind in self._compatible for change in found)

    def compare(self, old: Any, new: Any) -> list[Change]:
        """Two schemas as they stand in their documents."""
        return self.shapes(self.old.of(old), self.new.of(new))

    def shapes(self, old: Shape, new: Shape) -> list[Change]:
        pair = (id(old), id(new))
        if pair in self._open:
            self.assumed = self.assumed or pair not in self._known
            return self._known.get(pair, [])
        if pair in self._seen:
            known = self._seen[pair]
            self.budget.spend(len(known))
            return known
        self.budget.spend()
        if self._depth >= _PAIRS_DEEP_MAX:
            raise SchemaError(f"the schemas are too deep to be compared: more than {_PAIRS_DEEP_MAX} inside each other")
        self._open.add(pair)
        self._depth += 1
        found = list(dict.fromkeys(self._changes(old, new)))
        self.budget.spend(len(found))
        self._depth -= 1
        self._open.discard(pair)
        self._seen[pair] = found
        return found

    def misfits(self) -> dict[tuple[int, int], list[Change]]:
        return {pair: found for pair, found in self._seen.items() if not self.fits(found)}

    def _changes(self, old: Shape, new: Shape) -> list[Change]:
        beside = self._combined_beside_plain(old, new)
        if beside is not None:
            return beside
        if old.kind != new.kind:
            if old.kind == "never" or new.kind == "any" or _are_bytes_of_connect(old, new):
                return []
            return [Change("TYPE_CHANGED", "")]
        found = [Change(kind, "") for kind, key in _ANNOTATIONS if old.node.get(key) != new.node.get(key)]
        match old.kind:
            case "string" | "number" | "enum" | "const":
                found += [Change(kind, path) for kind, path in scalars.changes(old, new)]
            case "object":
                found += containers.object_changes(self, old.node, new.node)
            case "array":
                found += containers.array_changes(self, old.node, new.node)
            case "combined":
                found += self._combined(old, new)
            case "not":
                found += self._excluded(old, new)
            case "condition" if old.key != new.key:
                found.append(Change("CONDITION_CHANGED", "/if"))
        return found

    def _combined_beside_plain(self, old: Shape, new: Shape) -> list[Change] | None:
        """A combination beside a plain schema fits if the right one of its parts does."""
        if new.kind == "combined" and old.kind != "combined":
            if len(new.parts) == 1 or new.criterion != "allOf":
                for part in new.parts:
                    found = self.shapes(old, part)
                    if self.fits(found):
                        return found if len(new.parts) == 1 else [*found, Change("SUM_TYPE_EXTENDED", "")]
        elif old.kind == "combined" and new.kind != "combined" and (len(old.parts) == 1 or old.criterion == "allOf"):
            for part in old.parts:
                found = self.shapes(part, new)
                if self.fits(found):
                    return found if len(old.parts) == 1 else [*found, Change("PRODUCT_TYPE_NARROWED", "")]
        return None

    def _combined(self, old: Shape, new: Shape) -> list[Change]:
        found = []
        if old.criterion != new.criterion:
            one_old, one_new = len(old.parts) == 1, len(new.parts) == 1
            extended = (
                new.criterion == "anyOf"
                or (one_old and (one_new or new.criterion == "oneOf"))
                or (one_new and old.criterion == "allOf")
            )
            if not extended:
                return [Change("COMBINED_TYPE_CHANGED", "")]
            found.append(Change("COMBINED_TYPE_EXTENDED", ""))
        olds, news = old.distinct_parts(), new.distinct_parts()
        if len(olds) < len(news):
            found.append(Change("PRODUCT_TYPE_EXTENDED" if new.criterion == "allOf" else "SUM_TYPE_EXTENDED", ""))
        elif len(olds) > len(news):
            found.append(Change("PRODUCT_TYPE_NARROWED" if old.criterion == "allOf" else "SUM_TYPE_NARROWED", ""))
        matched = self._matched(olds, news)
        for index, matching in matched.items():
            found += below(f"/{old.criterion}/{index}", self.shapes(olds[index], news[matching]), self.budget)
        if len(matched) < min(len(olds), len(news)):
            found.append(Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""))
        return found

    def _matched(self, olds: list[Shape], news: list[Shape]) -> dict[int, int]:
        """As many parts of the old as can be, each with a part of the new that takes it: augmenting paths, breadth
        first.
        """
        edges = [[at for at, new in enumerate(news) if self.fits(self.shapes(old, new))] for old in olds]
        taken: dict[int, int] = {}  # part of the new -> part of the old
        for start in range(len(olds)):
            came_from: dict[int, int] = {}
            queue, free = [start], None
            while queue and free is None:
                current = queue.pop(0)
                for at in edges[current]:
                    self.budget.spend()
                    if at in came_from:
                        continue
                    came_from[at] = current
                    if at not in taken:
                        free = at
                        break
                    queue.append(taken[at])
            while free is not None:
                current = came_from[free]
                before = next((at for at, old in taken.items() if old == current), None)
                taken[free] = current
                free = before if current != start else None
        return {old: new for new, old in taken.items()}

    def _excluded(self, old: Shape, new: Shape) -> list[Change]:
        """What is excluded may become less: the comparison turned round. Both documents change places for it."""
        turned = self._turned
        if turned is None:
            turned = self._turned = Comparison(self.new, self.old, self._compatible)
            turned._turned = self  # what is being compared in either direction is known within it
            turned.budget = self.budget
        depth, turned._depth = turned._depth, self._depth
        found = turned.compare(new.node["not"], old.node["not"])
        turned._depth = depth
        if not found:
            return []
        return [Change("NOT_TYPE_NARROWED" if self.fits(found) else "NOT_TYPE_EXTENDED", "/not")]


def _are_bytes_of_connect(*shapes: Shape) -> bool:
    """Connect's converter writes decimals as text or as numbers, as its `decimal.format` says, and reads both."""
    return all(each.node.get("connect.type") == "bytes" for each in shapes)
