"""ZooKeeper, really: a session with it through kazoo, and a process of it for one machine."""
