"""`python -m headwater.server [--temporary] KEY=VALUE ...`: a broker for the testing plugin, without the command line's
imports.

It stops when its stdin closes; with `--temporary` it then removes its log directories.
"""

import sys

from headwater.server.main import run

_TEMPORARY = "--temporary"

sys.exit(
    run(
        None,
        [argument for argument in sys.argv[1:] if argument != _TEMPORARY],
        stop_on_eof=True,
        is_temporary=_TEMPORARY in sys.argv,
    )
)
