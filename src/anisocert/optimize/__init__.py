"""Which theta: how the noise's scale is chosen for each input."""

from anisocert.optimize.anisotropic import Anisotropic
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.average import Average
from anisocert.optimize.base import Method
from anisocert.optimize.cascade import Cascade
from anisocert.optimize.choice import Capture, Choice, Event
from anisocert.optimize.fixed import Fixed
from anisocert.optimize.isotropic import Isotropic
from anisocert.optimize.methods import CODED, FOR_EVERYONE, METHODS, PUBLISHED, ROUND, SAME_FOR_ALL, SELECTING, Settings
from anisocert.optimize.published import PublishedAnisotropic, PublishedIsotropic
from anisocert.optimize.selected import Selected
from anisocert.optimize.two_step import TwoStep

__all__ = [
    "CODED", "FOR_EVERYONE", "METHODS", "PUBLISHED", "ROUND", "SAME_FOR_ALL", "SELECTING", "Anisotropic", "Ascent",
    "Average", "Capture", "Cascade", "Choice", "Event", "Fixed", "Isotropic", "Method", "PublishedAnisotropic",
    "PublishedIsotropic", "Selected", "Settings", "TwoStep",
]  # fmt: skip
