"""Networks of other people's libraries, small: each is traced, and votes as the model itself does."""

import copy
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import nn

from anisocert.engine import Network, Numerics
from anisocert.engine.rewriting.tracing import traced
from anisocert.models.onnx_torch import _declare_torchvision_operators

if find_spec("torchvision") is None:
    pytest.skip("needs torchvision", allow_module_level=True)
_declare_torchvision_operators()
from torchvision import models as tv  # noqa: E402
from torchvision.models.convnext import CNBlockConfig  # noqa: E402
from torchvision.models.resnet import Bottleneck  # noqa: E402

SHAPE = (3, 32, 32)


def _timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: pytest.importorskip("timm", reason="needs timm").create_model(name, num_classes=10, **options)


def _small(**options: Any) -> dict[str, Any]:
    return {"img_size": 32, **options}


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "swin": lambda: tv.SwinTransformer([4, 4], 24, [2, 2], [2, 2], [4, 4], num_classes=10),
    "regnet": lambda: tv.regnet_y_400mf(num_classes=10),
    "mobilenet": lambda: tv.mobilenet_v3_small(num_classes=10),
    "resnext": lambda: tv.ResNet(Bottleneck, [1, 1, 1, 1], 10, groups=32, width_per_group=4),
    "vit": lambda: tv.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10),
    "convnext": lambda: tv.ConvNeXt([CNBlockConfig(24, 48, 1), CNBlockConfig(48, None, 1)], num_classes=10),
    "densenet": lambda: tv.DenseNet(8, (2, 2), 16, num_classes=10),
    "timm regnet": _timm("regnety_002"),
    "timm mobilenet": _timm("mobilenetv3_small_100"),
    "timm deit": _timm("deit_tiny_patch16_224", **_small(patch_size=8, depth=2, embed_dim=48)),
    "timm distilled": _timm("deit_tiny_distilled_patch16_224", **_small(patch_size=8, depth=2, embed_dim=48)),
    "timm swin": _timm(
        "swin_tiny_patch4_window7_224", **_small(window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 2))
    ),
}


def _model(name: str) -> nn.Module:
    """Untrained, but with batch norms that have seen data: else a deep network answers everything alike."""
    torch.manual_seed(0)
    model = FAMILIES[name]()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean over all batches
        if isinstance(layer, nn.Linear) and not layer.weight.any():
            nn.init.normal_(layer.weight, std=0.02)  # heads that begin with zeros
    with torch.no_grad():
        model.train()(torch.rand(64, *SHAPE) + 0.25 * torch.randn(64, *SHAPE))
    return model.eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_votes_are_the_models(name):
    model = _model(name)
    x = torch.rand(96, *SHAPE) + 0.25 * torch.randn(96, *SHAPE)
    network = Network(model, 10, numerics=Numerics("float32", compile=False, rows=32))
    network.fit(SHAPE, 64)
    with torch.no_grad():
        own = copy.deepcopy(model)(x).argmax(1)
    moved = int((network.scores(x).argmax(1) != own).sum())
    assert moved <= 1  # of 96, a tie
    traced(copy.deepcopy(model), x[:2])  # no error: it is rewritten where that pays
