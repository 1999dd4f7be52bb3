"""One small damage to a frame, as dice have it."""

import random


def damaged_at(chance: random.Random, data: bytes, at: int) -> bytes:
    """A byte that is another one, one flipped bit, some bytes missing, or some too many."""
    changing = bytearray(data)
    match chance.randrange(4):
        case 0:
            changing[at] = chance.choice((0, 1, 2, 127, 128, 255))
        case 1:
            changing[at] ^= 1 << chance.randrange(8)
        case 2:
            del changing[at : at + chance.randint(1, 4)]
        case _:
            changing[at:at] = bytes(chance.choice((0, 1, 128, 255)) for _ in range(chance.randint(1, 4)))
    return bytes(changing)
