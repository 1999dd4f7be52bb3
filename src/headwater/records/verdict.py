"""What a `BatchScanner` (`codec.py`) says of the batch at which it stopped. The numbers are those of
`native/scanning.c`.
"""

from typing import Final

GO_ON: Final = 0  # it is not there as a whole
BAD_HEADER: Final = 1
BAD_EPOCH: Final = 2
BAD_CRC: Final = 3
