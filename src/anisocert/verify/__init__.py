"""Whether a run is what it says: recomputed, recounted, compared with its memory."""

from anisocert.verify.backing import memory_backing
from anisocert.verify.verification import Verification
from anisocert.verify.verifying import verify

__all__ = ["Verification", "memory_backing", "verify"]
