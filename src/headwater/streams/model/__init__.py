"""What users' code and every layer of Streams speak of: records, changes, windows, times, processors. Pure."""
