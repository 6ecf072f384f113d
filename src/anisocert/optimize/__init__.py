"""Which theta: how the noise's scale is chosen for each input. A new way is a file with a Method, named in METHODS."""

from typing import Final

from anisocert.optimize.anisotropic import Anisotropic
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.average import Average
from anisocert.optimize.base import Method, Settings, checked_theta
from anisocert.optimize.fixed import Fixed
from anisocert.optimize.isotropic import Isotropic
from anisocert.optimize.published import PublishedAnisotropic, PublishedIsotropic

METHODS: Final[dict[str, type[Method]]] = {one.name: one for one in (Fixed, Isotropic, Anisotropic, Average)}
PUBLISHED: Final[dict[str, type[Method]]] = {one.name: one for one in (PublishedIsotropic, PublishedAnisotropic)}

__all__ = [
    "METHODS",
    "PUBLISHED",
    "Anisotropic",
    "Ascent",
    "Average",
    "Fixed",
    "Isotropic",
    "Method",
    "PublishedAnisotropic",
    "PublishedIsotropic",
    "Settings",
    "checked_theta",
]
