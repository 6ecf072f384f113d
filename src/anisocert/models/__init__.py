"""Networks and their files; any `nn.Module` works as well."""

from anisocert.inputs import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD
from anisocert.models.adapters import Reshaped, ScoresOf
from anisocert.models.architectures import ARCHITECTURES, build, suited
from anisocert.models.checkpoint import described, load_denoiser, save
from anisocert.models.coded import Codebook, Coded, PerCode, TwoSteps
from anisocert.models.denoised import Denoised, denoised
from anisocert.models.denoiser import Denoiser, suited_denoiser
from anisocert.models.loading import load
from anisocert.models.normalize import Normalized
from anisocert.models.quantized import quantize

__all__ = [
    "ARCHITECTURES", "CIFAR10_MEAN", "CIFAR10_STD", "IMAGENET_MEAN", "IMAGENET_STD", "Codebook", "Coded", "Denoised",
    "Denoiser", "Normalized", "PerCode", "Reshaped", "ScoresOf", "TwoSteps", "build", "denoised", "described", "load",
    "load_denoiser", "quantize", "save", "suited", "suited_denoiser",
]  # fmt: skip
