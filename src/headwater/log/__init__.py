"""One partition's log on disk, in Kafka's own files, byte for byte: segments, indexes, producer state, checkpoints.

`manager.LogManager` owns the log directories and all logs in them, `log.Log` one partition. Both belong to the loop and
have no threads. Formats are in docs/formats.
"""
