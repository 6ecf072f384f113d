"""The base of what watches the operators of a call."""

from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    """Looks at every operator in `__torch_dispatch__`, also at those that take functions."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import its compiler here, for more than a second
