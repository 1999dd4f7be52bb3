"""Which addresses count as one peer where places are shared out: one of IPv4, a /64 network of IPv6. Pure."""

import ipaddress


def network_of(host: str) -> str:
    """One machine has all addresses of its /64 network. What is no address stays as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(ipaddress.ip_network((int(address), 64), strict=False) if mapped is None else mapped)
