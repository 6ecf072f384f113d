import pytest
import torch
from torch import nn

from anisocert.engine._rows import DEVICE_ROWS, first_rung, largest_map
from anisocert.engine.numerics import ALIGN

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_little_of_twenty_thousand_votes_is_padding():
    for rows in DEVICE_ROWS:
        assert rows % ALIGN == 0
        assert -(-20_000 // rows) * rows <= 20_200


def test_the_largest_map_of_one_row():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 10)).eval()
    assert largest_map(model, torch.rand(32, 3, 8, 8)) == 16 * 64


def test_a_call_that_cannot_be_watched_is_no_obstacle():
    def call(x):
        raise NotImplementedError("no rule registered for this mode")

    assert largest_map(call, torch.rand(4, 3)) == 0
    assert largest_map(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), torch.rand(4, 3)) >= 3


@pytest.mark.parametrize(
    ("shape", "largest", "rows"),
    [
        ((3, 32, 32), 64 * 32 * 32, 10_016),
        ((3, 32, 32), 150_000, 10_016),
        ((3, 32, 32), 300_000, 5_024),
        ((3, 224, 224), 64 * 112 * 112, 2_016),
        ((3, 224, 224), 10, 10_016),
        ((3, 1024, 1024), 10, 480),  # inputs are maps as well
        ((3, 32, 32), 2**31, 32),
    ],
)
def test_all_maps_of_a_call_can_be_indexed_with_32_bits(shape, largest, rows):
    assert first_rung(GPU, shape, lambda: largest) == rows


def test_on_a_cpu_rows_follow_the_inputs_size():
    assert [first_rung(CPU, shape, lambda: 0) for shape in ((8,), (1, 8, 8), (3, 32, 32), (3, 224, 224))] == [
        20_000, 4_000, 160, 32,
    ]  # fmt: skip
