"""The certified classifier as a service: keys, the Open Inference Protocol, a client.

What serves needs the extra `serve`, and is imported where it is used: `service.service`, `service.app`,
`service.serving`. A client needs nothing beyond the core.
"""

from anisocert.service.client import Answers, Client
from anisocert.service.errors import RefusedError, ServiceError
from anisocert.service.keys import Key, KeyFile, add_key, remove_key

__all__ = [
    "Answers", "Client", "Key", "KeyFile", "RefusedError", "ServiceError", "add_key", "remove_key",
]  # fmt: skip
