"""The model hash: everything that a network's function can depend on, read without running any of it.

Plain values, tensors, objects, code and TorchScript each have a file. Nothing here knows how networks are run.
"""

from anisocert.engine.identity.hashing import hash_of, name_of

__all__ = ["hash_of", "name_of"]
