"""The metadata of a cluster in ZooKeeper: its layout, loading and following it, and writing to it under guards. Pure
over the port.
"""
