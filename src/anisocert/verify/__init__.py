"""Whether a run is what it says: recomputed, recounted, compared with its memory."""

from anisocert.verify.backing import memory_backing
from anisocert.verify.verifying import Verification, verify

__all__ = ["Verification", "memory_backing", "verify"]
