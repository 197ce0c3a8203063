"""The link group of an attachment.

Every link that an ADD creates carries a group number made from the attachment's key. Within the pod's namespace the
group *is* the claim: one RTM_DELLINK removes all rails in one RCU grace period, with or without a journal.
"""

from __future__ import annotations

import binascii

__all__ = ["group_of"]

_MARK = 0x40000000  # never 0 (the default group); 30 bits are left for the key


def group_of(network: str, container_id: str, ifname: str) -> int:
    """The link group of an attachment."""
    return _MARK | binascii.crc32(f"{network}/{container_id}/{ifname}".encode()) & 0x3FFFFFFF
