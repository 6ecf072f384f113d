"""A classifier whose noise a selector chooses from a codebook: one function, which anybody can evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from anisocert.errors import ArgumentError
from anisocert.models.weights import check_tensors, read_safetensors, write_safetensors
from anisocert.smoothing.base import positive

MOST_CODES = 256


@dataclass(frozen=True, init=False, eq=False)
class Codebook:
    """The noises that a selector chooses from. All are float32, the very numbers that noise is drawn with.

    Args:
        codes: `k` scalars or `k x *shape`.
        sigma: of the selector's own noise.
    """

    codes: NDArray[np.float32]
    sigma: float

    def __init__(self, codes: ArrayLike, sigma: float) -> None:
        each, own = positive("codes", codes), positive("sigma", sigma)
        if each.ndim == 0 or not 2 <= len(each) <= MOST_CODES:
            raise ArgumentError(f"expected 2 to {MOST_CODES} codes, got codes of shape {each.shape}")
        if own.ndim:
            raise ArgumentError(f"expected sigma as one number, got shape {own.shape}")
        object.__setattr__(self, "codes", each)
        object.__setattr__(self, "sigma", float(own))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one code: of an input, or () where all are scalars."""
        return self.codes.shape[1:]

    def save(self, path: Path) -> None:
        """Write a safetensors file, completely or not at all."""
        tensors = {"codes": torch.from_numpy(self.codes.copy()), "sigma": torch.tensor(self.sigma)}
        write_safetensors(path, tensors, {"codebook": len(self)})

    @classmethod
    def load(cls, path: str | Path) -> Codebook:
        """From a safetensors file with the tensors `codes` and `sigma`."""
        tensors, _ = read_safetensors(Path(path))
        check_tensors(tensors, str(path))
        if tensors.keys() != {"codes", "sigma"} or tensors["sigma"].numel() != 1:
            raise ArgumentError(f"expected tensors codes and sigma, one number, in {path}, got {sorted(tensors)}")
        if any(one.dtype != torch.float32 for one in tensors.values()):
            raise ArgumentError(f"expected float32 codes and sigma in {path}, got {tensors['codes'].dtype}")
        return cls(tensors["codes"].numpy(), float(tensors["sigma"]))


class Coded(nn.Module):
    """A classifier, a selector with one output per code, and the codebook: together one function with one hash.

    Its scores are the classifier's; which noise they are smoothed with is the selector's part, see `optimize.Selected`.

    Args:
        classifier: answers, under any of the noises.
        selector: its scores name a code, under noise of the codebook's sigma.
        codebook: the codes.
    """

    codes: Tensor

    def __init__(self, classifier: nn.Module, selector: nn.Module, codebook: Codebook) -> None:
        super().__init__()
        self.classifier, self.selector, self.sigma = classifier, selector, codebook.sigma
        self.register_buffer("codes", torch.from_numpy(codebook.codes.copy()))
        self.train(classifier.training or selector.training)

    def forward(self, x: Tensor) -> Tensor:
        """The classifier's scores of `x`."""
        scores: Tensor = self.classifier(x)
        return scores

    def thetas(self, shape: tuple[int, ...]) -> Tensor:
        """Every code for inputs of a shape: `k x *shape`, or `k x 1 x ...` where scalar."""
        if self.codes.dim() == 1:
            return self.codes.view(-1, *(1 for _ in shape))
        if tuple(self.codes.shape[1:]) != shape:
            raise ArgumentError(
                f"expected codes as scalars or of the inputs' shape {shape}, got {tuple(self.codes.shape[1:])}"
            )
        return self.codes


class TwoSteps(nn.Module):
    """Chooses by a first noisy copy which of the others the classifier sees: `b x (1 + k) x *shape` -> `b x (k c)`.

    The second to last copies are those with the noise of each code. Scores are 0 except in the block of the code.
    """

    def __init__(self, coded: Coded) -> None:
        super().__init__()
        self.classifier, self.selector, self.count = coded.classifier, coded.selector, len(coded.codes)
        self.train(coded.training)

    def forward(self, copies: Tensor) -> Tensor:
        """Scores of (code, class), in this order."""
        code, flat = self.selector(copies[:, 0]).argmax(1), copies.flatten(2)
        seen = flat.gather(1, (1 + code)[:, None, None].expand(-1, 1, flat.shape[2]))
        scores = self.classifier(seen.view_as(copies[:, 0])).float()
        block = nn.functional.one_hot(code, self.count).unsqueeze(2)
        joint: Tensor = (block * (1 + scores - scores.amin(1, keepdim=True)).unsqueeze(1)).flatten(1)
        return joint
