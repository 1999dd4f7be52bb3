"""The simulated world: a broker on simulated ports, its clients and its misfortunes, all from one seed. `make sim`.

    world.py       one heap of events; step, check, run
    node.py        a machine: its disk, and the broker that `server/assembly.py` puts on it, time and again
    network.py     connections without sockets, on the server's own dispatch
    clients/       producers, consumers, an administrator, and the audit at the end
    history.py     what clients were told about a partition, and whether it can all be true; catalog.py: about topics
    faults.py      what may go wrong; injector.py makes it happen; followers.py delays commits
    clock.py, disk.py, scheduler.py    the ports

More nodes go into the same heap: a node has its own disk, clock and `ProcessScheduler`, and knows nothing of the others.
"""
