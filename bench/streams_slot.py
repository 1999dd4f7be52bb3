"""`python -m bench.streams_slot NUMBER PORT`: a process that is a slot until its lead is gone; the secret comes on its
standard input.
"""

import sys

from headwater.spark.slots.frames import ChannelClosed
from headwater.streams.slot.host import run_slot


def main(number: str, port: str) -> None:
    secret = bytes.fromhex(sys.stdin.readline())
    while True:
        try:
            run_slot(int(number), ("127.0.0.1", int(port)), secret)
        except ChannelClosed:
            continue
        except OSError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
