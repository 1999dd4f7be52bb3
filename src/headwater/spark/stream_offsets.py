"""The offsets of a stream, and which of them the next batch takes. Pure: the state of the logs comes in.

An offset is written as Spark's own Kafka source writes it, {"topic": {"0": 23}}: the first offset of each partition
that is not read yet. So a checkpoint of `format("kafka")` can be taken over by changing one word, and the other way.

A partition that is new enters the offsets at its earliest record, in a batch that does not read it yet: what a batch
reads then follows from its two offsets alone, on every retry, whatever the cluster looks like by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.offset_options import LogFacts, parse_by_partition

OffsetTree = dict[str, dict[str, int]]
PartitionOffsets = dict[TopicPartition, int]


def to_tree(offsets: Mapping[TopicPartition, int]) -> OffsetTree:
    """Sorted, so that equal offsets give equal JSON: Spark compares the text."""
    tree: OffsetTree = {}
    for each in sorted(offsets):
        tree.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return tree


def from_tree(tree: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in tree.items()
        for partition, offset in partitions.items()
    }


def from_json(text: str) -> PartitionOffsets:
    return parse_by_partition("offset", text, smallest=0, example='{"topic": {"0": 23}}') if text != "{}" else {}


@dataclass(frozen=True, slots=True)
class Advance:
    """Where the next batch ends, and what was lost on the way there (in words; empty: nothing)."""

    end: PartitionOffsets
    losses: list[str] = field(default_factory=list)


def advance(
    start: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogFacts],
    *,
    max_records: int | None,
    target: Mapping[TopicPartition, int] | None = None,
) -> Advance:
    """From `start` as far as the logs go, at most `max_records`, never beyond `target` (a query that ends there).

    Partitions that are gone leave the offsets. One that was made anew, as one must have been whose log ends before
    `start`, is read from its beginning in the batch after. One whose log begins after `start` has lost what lay
    between; the batch goes on there.
    """
    end: PartitionOffsets = {}
    losses = [f"{each} is gone; it was read up to offset {start[each]}" for each in sorted(start.keys() - logs.keys())]
    sizes: PartitionOffsets = {}
    for each in sorted(logs):
        facts = logs[each]
        if target is not None and each not in target:
            if each in start:
                end[each] = start[each]
            continue
        if each not in start:
            end[each] = facts.earliest
            continue
        begin = start[each]
        if facts.anew or facts.latest < begin:
            where = (
                f"ends at offset {facts.latest}, before {begin}" if facts.latest < begin else f"was read up to {begin}"
            )
            losses.append(f"{each} {where}: it was made anew{'' if facts.anew else ', or cut off'}")
            end[each] = facts.earliest
            continue
        if facts.earliest > begin:
            losses.append(
                f"{each} begins at offset {facts.earliest}, after {begin}: {facts.earliest - begin} offsets are gone"
            )
        end[each] = max(begin, facts.earliest)
        last = facts.latest if target is None else min(facts.latest, target[each])
        sizes[each] = max(0, last - end[each])
    for each, taken in share(sizes, max_records).items():
        end[each] += taken
    return Advance(end, losses)


def share(sizes: Mapping[TopicPartition, int], total: int | None) -> PartitionOffsets:
    """Parts of the sizes that sum up to `total`, or all of them if they are not more: each in proportion to its size.

    Every partition that has something gets at least one, or a small one would starve beside a large one that never
    empties; so the sum is larger if `total` is smaller than the number of partitions. What rounding leaves over goes
    one by one to the partitions that rounding took most from.
    """
    waiting = {each: size - 1 for each, size in sizes.items() if size > 0}
    whole = sum(waiting.values())
    if total is None or whole + len(waiting) <= total:
        return dict(sizes)
    rest = max(0, total - len(waiting))
    parts = {each: 1 + size * rest // max(whole, 1) for each, size in waiting.items()}
    left_over = max(0, total - sum(parts.values()))
    by_fraction = sorted(waiting, key=lambda each: (-(waiting[each] * rest % max(whole, 1)), each))
    for each in by_fraction[:left_over]:
        parts[each] += 1
    return parts


def lag(start: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, LogFacts]) -> int:
    """How many offsets lie between `start` and the ends of the logs."""
    return sum(max(0, facts.latest - start.get(each, facts.earliest)) for each, facts in logs.items())


def past_their_end(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions of a batch that begin behind their end, in words: a topic was made anew since somebody noted its
    offset.
    """
    return [
        f"{each} is to be read from offset {start[each]}, and ends at {end[each]}"
        for each in sorted(start.keys() & end.keys())
        if start[each] > end[each]
    ]


def raise_losses(losses: list[str]) -> None:
    if losses:
        raise UserError(
            "Data was lost before it could be read",
            "; ".join(losses[:5]) + (" ..." if len(losses) > 5 else ""),
            "If that is fine, set the option failOnDataLoss to false, and the query goes on with what is left",
        )
