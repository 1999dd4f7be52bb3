"""Reprocessing: a new version of an application beside the one that runs, from the first record on; outputs compared,
and switched.
"""
