"""The consumer: subscriptions and assignments, positions, fetching, commits; two faces (`consumer`, `aio`) over one core.

consumer.py, aio.py   the faces: parameters in, results out, the user's callbacks in the user's thread or loop
core.py               what the faces share; the host of the group membership
subscription.py       what the user asked for; the partitions assigned (`positions.py` has the state of each)
fetching.py           who is asked for what (`fetch_session.py`), and what becomes of the answers (`fetch_errors.py`)
stretch.py            one answer for one partition, read record by record or as columns
resolving.py          where a partition without a position begins
commits.py            committed offsets: read, written, in order
membership/           the group
"""
