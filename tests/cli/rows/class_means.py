"""A classifier of digits whose scores are nearly exact in any arithmetic: the nearest class mean, on a coarse grid."""

import torch
from torch import nn

from anisocert.data import digits


def network() -> nn.Module:
    train = digits("train")
    x, y = torch.from_numpy(train.x).flatten(1).double(), torch.from_numpy(train.y)
    means = torch.stack([x[y == label].mean(0) for label in range(10)])
    grid = (means * 64).round() / 64
    linear = nn.Linear(64, 10)
    with torch.no_grad():
        linear.weight.copy_(16 * grid)
        linear.bias.copy_(-8 * grid.square().sum(1))
    return nn.Sequential(nn.Flatten(), linear).eval()
