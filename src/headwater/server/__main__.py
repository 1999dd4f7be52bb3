"""`python -m headwater.server KEY=VALUE ...`: a broker for the testing plugin, without the command line's imports."""

import sys

from headwater.server.main import run

sys.exit(run(None, sys.argv[1:], stop_on_eof=True))
