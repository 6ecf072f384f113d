"""A classifier whose noise a selector chooses from a codebook: one function, which anybody can evaluate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from anisocert.engine.told import is_told
from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.models.weights import check_tensors, read_safetensors, write_safetensors
from anisocert.smoothing.base import positive

MOST_CODES = 256
LEAD = 2.0**-5  # of the largest of scores between 0 and 1: more than bfloat16 rounds there
NETWORKS = "networks."
"""With which the names of weights begin in a codebook's file that has a network per code."""


@dataclass(frozen=True, init=False, eq=False)
class Codebook:
    """The noises that a selector chooses from. All are float32, exactly the numbers that noise is drawn with.

    Args:
        codes: `k` scalars or `k x *shape`.
        sigma: scale of the noise that the selector itself sees.
    """

    codes: NDArray[np.float32]
    sigma: float

    def __init__(self, codes: ArrayLike, sigma: float) -> None:
        thetas, scale = positive("codes", codes), positive("sigma", sigma)
        if thetas.ndim == 0 or not 2 <= len(thetas) <= MOST_CODES:
            raise ArgumentError(f"expected 2 to {MOST_CODES} codes, got codes of shape {thetas.shape}")
        if scale.ndim:
            raise ArgumentError(f"expected sigma as one number, got shape {scale.shape}")
        object.__setattr__(self, "codes", thetas)
        object.__setattr__(self, "sigma", float(scale))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one code: of an input, or () where all are scalars."""
        return self.codes.shape[1:]

    @property
    def order(self) -> tuple[int, ...]:
        """Codes by their noise, in the geometric mean, the largest first."""
        means = np.log(self.codes.astype(np.float64)).reshape(len(self), -1).mean(1)
        return tuple(np.argsort(-means, kind="stable").tolist())

    @property
    def cascade_sigma(self) -> float:
        """Sigma of the noise that a cascade is asked with: the smallest value of the largest code."""
        return float(self.codes[self.order[0]].min())

    def save(self, path: str | Path, networks: Sequence[tuple[nn.Module, dict[str, Any]]] = ()) -> None:
        """Write a safetensors file, completely or not at all.

        networks: one per code, each with what its file says of it; the file is then also that of a `PerCode`.
        """
        if networks and len(networks) != len(self):
            raise ArgumentError(f"expected one network per code, {len(self)}, got {len(networks)}")
        sigma = np.array(self.sigma, np.float32)
        tensors = {"codes": torch.from_numpy(self.codes.copy()), "sigma": torch.from_numpy(sigma)}
        for k, (network, _) in enumerate(networks):
            tensors |= {f"{NETWORKS}{k}.{name}": tensor for name, tensor in network.state_dict().items()}
        extra = {"networks": [metadata for _, metadata in networks]} if networks else {}
        write_safetensors(path, tensors, {"codebook": len(self)} | extra)

    @classmethod
    def load(cls, path: str | Path) -> Codebook:
        """Read a safetensors file with the tensors `codes` and `sigma`."""
        tensors = {
            name: tensor for name, tensor in read_safetensors(Path(path))[0].items() if not name.startswith(NETWORKS)
        }
        check_tensors(tensors, str(path))
        if tensors.keys() != {"codes", "sigma"} or tensors["sigma"].numel() != 1:
            names = ", ".join(sorted(tensors)[:5])
            raise ArgumentError(f"expected tensors codes and sigma, one number, in {path}, got {names[:200]}")
        if any(tensor.dtype != torch.float32 for tensor in tensors.values()):
            raise ArgumentError(f"expected float32 codes and sigma in {path}, got {tensors['codes'].dtype}")
        return cls(tensors["codes"].numpy(), float(tensors["sigma"]))


class PerCode(nn.Module):
    """Networks, one per code: where a code is named, its network alone votes, under its noise."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.training = self.networks.training = False  # the mode is the networks' own, which are the caller's

    def __len__(self) -> int:
        return len(self.networks)

    def forward(self, x: Tensor) -> Tensor:
        """An error: no network answers where no code is named."""
        raise ArgumentError(
            "expected a codebook and a selector, which name a code, with one network per code, got neither: use "
            "ac.Coded, or --method selected with --codebook and --selector"
        )


class Coded(nn.Module):
    """A classifier, a selector with one output per code, and the codebook: together one function with one hash.

    Its own scores are those of its classifier, with a network per code that of the largest noise; which noise they are
    smoothed with is up to the method: `optimize.Cascade`, or `optimize.Selected`.

    Args:
        classifier: answers, under any of the noises; or one network per code, in the order of the codes.
        selector: names a code by its scores, under noise of the codebook's sigma; None for a cascade.
        codebook: the codes.
    """

    codes: Tensor

    def __init__(
        self, classifier: nn.Module | Sequence[nn.Module], selector: nn.Module | None, codebook: Codebook
    ) -> None:
        super().__init__()
        if not isinstance(codebook, Codebook):
            raise ArgumentError(f"expected codebook as in ac.Codebook([0.5, 0.25], 0.5), got {told(codebook)}")
        if not isinstance(selector, nn.Module | None):
            raise ArgumentError(f"expected selector as an nn.Module, or None for a cascade, got {told(selector)}")
        several = isinstance(classifier, Sequence) and all(isinstance(network, nn.Module) for network in classifier)
        if not several and not isinstance(classifier, nn.Module):
            raise ArgumentError(
                f"expected classifier as an nn.Module, or a list of one per code, got {told(classifier)}: "
                "anisocert.models.load(FILE)[0] reads one"
            )
        classifier = classifier if isinstance(classifier, nn.Module) else PerCode(classifier)
        if isinstance(classifier, PerCode) and len(classifier) != len(codebook):
            raise ArgumentError(f"expected one network per code, {len(codebook)}, got {len(classifier)}")
        if is_told(selector):
            raise ArgumentError("expected a selector that is not told theta, which it is to choose, got one that is")
        self.training = False  # the mode is that of its parts, which are the caller's
        self.classifier, self.selector, self.sigma = classifier, selector, codebook.sigma
        self.order = codebook.order
        if len({is_told(network) for network in self.networks}) > 1:
            raise ArgumentError("expected networks that are all told theta, or none of them, got some that are")
        self.register_buffer("codes", torch.from_numpy(codebook.codes.copy()))

    @property
    def networks(self) -> tuple[nn.Module, ...]:
        """The networks that answer: one for all codes, or one per code."""
        return tuple(self.classifier.networks) if isinstance(self.classifier, PerCode) else (self.classifier,)

    @property
    def told_theta(self) -> bool:
        """Whether the networks that answer are told theta, each that of the code that is asked."""
        return is_told(self.networks[self.order[0] if len(self.networks) > 1 else 0])

    def forward(self, x: Tensor) -> Tensor:
        """The scores of `x` by the network of the largest noise."""
        scores: Tensor = self.networks[self.order[0] if len(self.networks) > 1 else 0](x)
        return scores

    def scores_of_parts(self, x: Tensor) -> Tensor:
        """All that tells this function from another, for a probe: blocks of `b x m`, one below the other.

        Scores of every network and of the selector, the last column repeated where they have fewer than m; then signs
        that follow from the codes, of which half are others where a bit of a code is.
        """
        plain = x[:, 0] if self.told_theta else x
        selectors = [] if self.selector is None else [self.selector]
        scores = [
            *(network(x).float() for network in self.networks),
            *(selector(plain).float() for selector in selectors),
        ]
        m = max(block.shape[1] for block in scores)
        digest = hashlib.shake_256(self.codes.cpu().numpy().tobytes() + np.float64(self.sigma).tobytes())
        signs = np.frombuffer(digest.digest(len(x) * m), np.uint8).reshape(len(x), m) % 2 * 2.0 - 1.0
        wide = [torch.cat([block, block[:, -1:].expand(-1, m - block.shape[1])], 1) for block in scores]
        return torch.cat([*wide, torch.from_numpy(signs).to(x.device, torch.float32)])

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
        if coded.selector is None:
            raise ArgumentError("expected a model with a selector for two steps, got none")
        if coded.told_theta:
            raise ArgumentError("expected networks that are not told theta for two steps, got one: use Selected()")
        self.networks, self.selector = nn.ModuleList(coded.networks), coded.selector
        self.count = len(coded.codes)
        self.training = self.networks.training = False  # the mode is that of its parts, which are the caller's

    def forward(self, copies: Tensor) -> Tensor:
        """Scores of (code, class), in this order."""
        chosen = self.selector(copies[:, 0])
        code = chosen.argmax(1)
        if len(self.networks) == 1:
            scores = self.networks[0](_at(copies[:, 1:], code)).float()
        else:  # every network sees its copy, as which rows a batch has for one of them is not known beforehand
            per_code = [network(copies[:, 1 + k]).float() for k, network in enumerate(self.networks)]
            scores = _at(torch.stack(per_code, 1), code)
        # From 0 to 1 by how far a class is behind the largest, which leads by more than rounding hides: scores may be
        # tiny, or that of a masked class enormous.
        behind = scores - scores.amax(1, keepdim=True)
        graded = 1 / (1 - behind) + LEAD * nn.functional.one_hot(scores.argmax(1), scores.shape[1])
        block = nn.functional.one_hot(code, self.count)
        joint = (block.unsqueeze(2) * graded.unsqueeze(1)).flatten(1)
        return torch.where(chosen.isnan().any(1, keepdim=True), torch.nan, joint)  # as a NaN among scores does


def _at(entries: Tensor, code: Tensor) -> Tensor:
    """The entry of its code for each row. entries: `b x k x ...`; code: `b` -> `b x ...`."""
    flat = entries.flatten(2)
    return flat.gather(1, code[:, None, None].expand(-1, 1, flat.shape[2])).view_as(entries[:, 0])
