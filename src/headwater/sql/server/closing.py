"""How long a server that ends waits for brokers. What it has still to tell them (that it leaves its group, the last
states of its queries) is told within that time or not at all: brokers that are dead must not keep a server alive. The
next server finds out by itself.
"""

from typing import Final

LAST_WORDS_S: Final = 3.0  # of each client; several are closed at a time
