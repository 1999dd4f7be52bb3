"""What runs connectors: tasks in threads, their offsets, their errors, and the herder that owns them all."""
