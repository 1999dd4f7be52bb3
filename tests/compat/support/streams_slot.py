"""A process that is a slot, lease after lease, until its lead is gone: `streams_slot.py NUMBER PORT`, and the secret on
its standard input.

Prints "lost" when its lead has given it up, and registers again.
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
            print("lost", flush=True)
        except OSError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
