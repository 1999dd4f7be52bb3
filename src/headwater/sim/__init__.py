"""The simulated world: brokers on simulated ports, their clients and their misfortunes, all from one seed. `make sim`.

stage.py       what all worlds have: one heap of events, a trace; step, check, run
world.py       one broker; node.py: its machine, and the broker that `server/assembly.py` puts on it, time and again
network.py     connections without sockets, on the server's own dispatch
clients/       producers, consumers, an administrator, members of groups, and the audit at the end
history.py     what clients were told about a partition, and whether it can all be true; catalog.py: about topics
faults.py      what may go wrong; injector.py makes it happen; followers.py delays commits
coordination.py    a world of groups and transactions
clock.py, disk.py, scheduler.py, zookeeper.py, peers.py    the ports

cluster.py     several brokers and a ZooKeeper; cluster_coordination.py: with groups and transactions;
cluster_storage.py: with logs that are trimmed or may lose cluster_*.py   the machine, the network that is cut and
heals, the faults, and what must hold between the brokers cluster_clients/   the scripts of `clients/`, sent where the
metadata says
"""
