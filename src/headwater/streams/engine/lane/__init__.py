"""The quick way through a task: its nodes as one function per source, written out as Python and compiled, which takes a
run of records by column.

Results are those of the nodes themselves, record by record and in their order; a property test compares both. Where a
topology has a node that is not known here, a task has no lane. Where a record fails, nothing of its run has happened,
and the nodes take it from there.
"""
