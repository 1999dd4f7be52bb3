"""Compaction: of each key, only the last record stays. Formats and the protocol of files: docs/formats/compaction.md.

`decisions` says what is dirty and what may be cleaned, `cleaning` does it in a worker process and leaves `.cleaned`
files, `swapping` puts those in the place of what they came from, `crash_recovery` tidies up after a crash, and
`cleaner` runs it all.
"""
