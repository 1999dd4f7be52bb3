"""The `headwater` command. Loaded for every call, `--help` included: nothing heavy is imported before it is needed."""
