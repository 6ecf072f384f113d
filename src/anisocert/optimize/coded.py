"""What methods have in common that choose among the codes of a `Coded`: the model, and which of its networks votes."""

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Network
from anisocert.errors import ArgumentError
from anisocert.models import Coded
from anisocert.optimize.base import Method, scalar_theta
from anisocert.smoothing import Smoothing

SHARE = 0.5
"""Part of alpha that the votes get which prove the code: both radii depend on theirs by its logarithm alone."""


class CodedMethod(Method):
    """A method whose model is a `Coded`."""

    def check(self, model: Classifier, smoothing: Smoothing, plan: Plan, shape: tuple[int, ...] | None = None) -> None:
        """See Method."""
        super().check(model, smoothing, plan, shape)
        coded = self.coded(model, smoothing, plan)
        if shape is not None:
            coded.thetas(shape)

    def least(self, model: Classifier, smoothing: Smoothing) -> float:
        """See Method."""
        codes = [float(model.codes.min())] if isinstance(model, Coded) else []
        return min(super().least(model, smoothing), *codes)

    def coded(self, model: Classifier, smoothing: Smoothing, plan: Plan) -> Coded:
        """The model; an error unless this method can ask it under this noise."""
        if not isinstance(model, Coded):
            raise ArgumentError(
                f"expected a model with a codebook for {self.name}, as in ac.Coded(classifier, selector, codebook), "
                f"got {type(model).__name__}"
            )
        return model


class SelectingMethod(CodedMethod):
    """One whose codes a selector names, under the noise of its codebook."""

    def coded(self, model: Classifier, smoothing: Smoothing, plan: Plan) -> Coded:
        """See CodedMethod."""
        coded = super().coded(model, smoothing, plan)
        if coded.selector is None:
            raise ArgumentError(f"expected a model with a selector for {self.name}, got none: use Cascade()")
        if scalar_theta(self, smoothing) != coded.sigma:
            raise ArgumentError(
                f"expected the noise of the codebook's selector, {coded.sigma:g}, for {self.name}, got "
                f"{float(smoothing.theta):g}"
            )
        return coded


def voter(network: Network, code: int) -> Network:
    """The one that votes under a code: of a `Coded` with a network per code that code's, else the network itself."""
    if not isinstance(network.model, Coded) or len(network.model.networks) == 1 or code == network.model.order[0]:
        return network  # whose scores these are
    return network.part(f"network {code}", network.model.networks[code], network.num_classes)
