"""What looks at every operator of a network."""

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):
    """A mode that is never compiled itself: as torch has it, each would import the compiler, for more than a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
