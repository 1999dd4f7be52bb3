"""The coordinators' shell: shards over partitions of the internal topics, and what handlers call."""
