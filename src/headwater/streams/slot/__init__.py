"""A slot: the loop in a process that reads, processes and commits the tasks it was given."""
