"""What the service refuses, and what a client is told about it."""

from anisocert.errors import AnisocertError


class RefusedError(AnisocertError):
    """A request that is not answered. status: of HTTP. retry_after: seconds after which it may be asked again.

    The message goes to the client: it names no path, no input and nobody else's id.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class ServiceError(AnisocertError):
    """What a client gets instead of an answer. status: of HTTP, 0 if the service could not be reached.

    retry_after: seconds after which to ask again, where the service says so.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status, self.retry_after = status, retry_after
