"""Clients of a simulated cluster: the scripts of `sim/clients`, sent where the metadata says."""
