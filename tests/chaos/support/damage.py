"""What may happen to the files of a broker that is not running. Each function takes its log directory and dice.

A power loss takes back what no fsync has covered: all beyond the recovery points may be missing, or be there in part. A
torn write leaves a part of the last batch. A bad device flips bits; there what recovery promises to notice is flipped:
beyond the recovery point, in indexes, and in the file of leader epochs such that it cannot be read.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.base.ids import TopicPartition
from headwater.log import names
from headwater.log.checkpoint import parse_offsets
from headwater.records.reader import read_batches

CHECKED_FROM = (
    16  # in a batch: its magic, its CRC, and what that covers. Nothing covers the offset and the epoch before
)

Damage = Callable[[Path, random.Random], None]


def lose_power(log_dir: Path, dice: random.Random) -> None:
    for path, flushed in unflushed(log_dir):
        cut(path, dice.randint(flushed, path.stat().st_size))


def lose_everything_unflushed(log_dir: Path, dice: random.Random) -> None:
    for path, flushed in unflushed(log_dir):
        cut(path, flushed)


def tear_the_last_batch(log_dir: Path, dice: random.Random) -> None:
    for path, flushed in unflushed(log_dir):
        starts = [position for position, _ in read_batches(path.read_bytes()) if position >= flushed]
        if starts:
            cut(path, dice.randint(starts[-1] + 1, path.stat().st_size - 1))


def flip_a_bit_of_the_segment(log_dir: Path, dice: random.Random) -> None:
    for path, flushed in unflushed(log_dir):
        batches = [(at, header.size_bytes) for at, header in read_batches(path.read_bytes()) if at >= flushed]
        if batches:
            start, size = dice.choice(batches)
            flip(path, start + dice.randrange(CHECKED_FROM, size), dice.randrange(8))


def flip_a_bit_of_the_indexes(log_dir: Path, dice: random.Random) -> None:
    for ending in (names.OFFSET_INDEX, names.TIME_INDEX):
        for path in log_dir.glob(f"*/*{ending}"):
            if path.stat().st_size:
                flip(path, dice.randrange(path.stat().st_size), dice.randrange(8))


def flip_a_bit_of_the_epochs(log_dir: Path, dice: random.Random) -> None:
    for path in log_dir.glob(f"*/{names.LEADER_EPOCH_CHECKPOINT}"):
        flip(path, dice.randrange(path.stat().st_size), 7)


DAMAGES: dict[str, Damage] = {
    "power": lose_power,
    "everything": lose_everything_unflushed,
    "torn": tear_the_last_batch,
    "segment": flip_a_bit_of_the_segment,
    "indexes": flip_a_bit_of_the_indexes,
    "epochs": flip_a_bit_of_the_epochs,
}


def unflushed(log_dir: Path) -> Iterator[tuple[Path, int]]:
    """The last segment of each partition, and how many of its bytes are surely on the device."""
    checkpoint = log_dir / names.RECOVERY_POINT_CHECKPOINT
    points = parse_offsets(checkpoint.read_bytes()) if checkpoint.exists() else {}
    for folder in sorted(log_dir.iterdir()):
        segments = sorted(folder.glob(f"*{names.LOG}")) if folder.is_dir() else []
        if segments:
            topic, _, number = folder.name.rpartition("-")
            point = points.get(TopicPartition(topic, int(number)), 0)
            yield segments[-1], position_of(segments[-1], point)


def position_of(segment: Path, offset: int) -> int:
    data = segment.read_bytes()
    for position, header in read_batches(data, partial_tail=True):
        if header.last_offset >= offset:
            return position
    return len(data)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)
