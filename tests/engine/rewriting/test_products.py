import pytest
import torch
import torch.nn.functional as F
from torch import nn

from anisocert.engine.rewriting._products import ActivatedLinear, DenseConv2d, PatchConv2d, PointwiseConv2d

TINY = {
    "2x2": ((2, 2), {"kernel_size": 3, "padding": 1}),
    "1x1": ((1, 1), {"kernel_size": 3, "padding": 1}),
    "strided": ((3, 3), {"kernel_size": 3, "padding": 1, "stride": 2}),
    "narrow": ((1, 9), {"kernel_size": 3, "padding": 1}),
    "dilated": ((2, 3), {"kernel_size": 3, "padding": 2, "dilation": 2}),
    "wrapped": ((2, 2), {"kernel_size": 3, "padding": 1, "padding_mode": "circular"}),
    "mirrored": ((2, 3), {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"}),
    "without bias": ((2, 2), {"kernel_size": 2, "bias": False}),
}


@pytest.mark.parametrize(("size", "options"), TINY.values(), ids=TINY)
def test_tiny_maps_become_matrices(size, options):
    conv, x = nn.Conv2d(3, 5, **options), torch.randn(6, 3, *size)
    dense = DenseConv2d(conv, *size)
    assert DenseConv2d.fits(conv, *size)
    with torch.no_grad():
        expected = conv.double()(x.double())
        assert dense(x).shape == expected.shape
        assert (dense(x) - expected).abs().max() < 1e-5


def test_a_callers_autocast_rounds_no_matrix():
    conv = nn.Conv2d(3, 5, 3, padding=1)
    expected = DenseConv2d(conv, 2, 2).weight
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(DenseConv2d(conv, 2, 2).weight, expected)


def test_a_matrix_that_would_be_huge_is_not_made():
    assert DenseConv2d.fits(nn.Conv2d(512, 512, 3, padding=1), 2, 2)
    assert not DenseConv2d.fits(nn.Conv2d(512, 512, 7, padding=3), 7, 7)
    assert not DenseConv2d.fits(nn.Conv2d(3, 3, 3), 4, 4)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_pointwise_convolution(stride, bias):
    conv, x = nn.Conv2d(5, 4, 1, stride, bias=bias), torch.randn(3, 5, 8, 7)
    pointwise = PointwiseConv2d(conv)
    with torch.no_grad():
        expected = conv.double()(x.double())
        assert (pointwise(x) - expected).abs().max() < 1e-5


@pytest.mark.parametrize(("kernel", "size"), [((4, 4), (8, 12)), ((2, 3), (4, 9)), ((16, 16), (16, 32))])
@pytest.mark.parametrize("bias", [True, False])
def test_patches(kernel, size, bias):
    conv = nn.Conv2d(3, 7, kernel, kernel, bias=bias).requires_grad_(False)
    x = torch.randn(2, 3, *size)
    assert PatchConv2d.fits(conv, *size)
    got, expected = PatchConv2d(conv)(x), conv.double()(x.double())
    assert got.shape == expected.shape
    assert (got - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(3, 4, 4, 2),
        nn.Conv2d(3, 4, 4, 4, 1),
        nn.Conv2d(4, 4, 4, 4, groups=2),
        nn.Conv2d(3, 4, 2, 2, dilation=2),
        nn.Conv2d(3, 4, 3, 3),
        nn.Conv2d(3, 4, 1, 1),
    ],
)
def test_windows_that_are_no_patches(conv):
    assert not PatchConv2d.fits(conv, 16, 16)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_activations_at_the_end_of_a_product(activation, bias):
    linear, x = nn.Linear(6, 5, bias=bias).requires_grad_(False), 3 * torch.randn(2, 4, 6)
    layer = ActivatedLinear(linear)
    assert torch.allclose(layer(x), linear(x), atol=1e-6)
    layer.activation = activation
    wanted = getattr(F, activation)(linear(x))
    assert (layer(x) - wanted).abs().max() <= 5e-4
    assert (layer(x) - linear(x)).abs().max() > 0.1
