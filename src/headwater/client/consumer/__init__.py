"""The consumer: subscriptions and assignments, positions, fetching, commits; two faces over one core.

| file | what it is for |
|---|---|
| consumer, aio | the faces: parameters in, results out, the user's callbacks in his thread or loop (`arguments`) |
| core | what the faces share; the host of the group membership; `cluster_queries` about topics and offsets |
| subscription | what the user asked for; the partitions assigned (`positions` has the state of each) |
| topics | fresh metadata, patterns |
| resolving | where a partition without a position begins (`lookups`) |
| fetching | who is asked for what (`fetch_session`, `fetch_requests`) |
| fetch_answers | what becomes of the answers (`fetch_errors`) |
| completed_fetch | one answer for one partition, read record by record or as columns |
| draining | from completed fetches to what poll gives, deserialized; `arrow` for columns |
| commits | committed offsets: read, written, in order |
| ranges | from one offset to another, without a group |
| membership/, assignors/ | the group |
"""
