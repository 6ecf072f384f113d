from types import SimpleNamespace

import pytest
import torch
from torch import nn

from anisocert.engine._rows import DEVICE_ROWS, first_rung, gradient_rows, kept_bytes, largest_map
from anisocert.engine.numerics import ALIGN

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_little_of_ten_thousand_votes_is_padding():
    for rows in DEVICE_ROWS:
        assert rows % ALIGN == 0
        assert -(-10_000 // rows) * rows <= 10_080


def test_bytes_that_a_step_keeps_for_each_row():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 500), nn.Sigmoid(), nn.Linear(500, 7), nn.Tanh())
    x = torch.rand(64, 3, 4)
    assert kept_bytes(model, x) == 4 * (12 + 500 + 7), "inputs, sigmoid and tanh; weights are not for each row"
    assert not x.requires_grad
    assert kept_bytes(model.requires_grad_(False), x) == 4 * (500 + 7)
    assert kept_bytes(lambda x: x.detach(), x) == 0
    assert kept_bytes(lambda x: x.add_(1).tanh(), x) == 4 * 12, "which may change its input"
    assert kept_bytes(lambda x: x.tanh()[99], x) == 0, "an error of its own is for others to find"
    with torch.inference_mode():
        assert kept_bytes(model, x) == 4 * (500 + 7), "whatever the caller has switched off"


def test_rows_with_gradients_fit_into_memory_and_keep_a_gpu_busy(monkeypatch):
    def rows(each: int, copies: int = 1, device=GPU) -> int:
        return gradient_rows(device, 320, copies, lambda: each)

    def has(memory: int) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=memory))

    assert [rows(0, copies, CPU) for copies in (100, 200, 400)] == [160, 200, 400]
    assert [rows(each, 200, CPU) for each in (20 * 10**6, 10**10)] == [100, 1]
    has(10_000_000)
    assert [rows(each) for each in (0, 1_000, 40_000, 10**9)] == [320, 320, 100, 1]
    has(100 * 10**9)
    assert [rows(each) for each in (10**6, 10 * 10**6, 10**9)] == [320, 100, 1]
    assert [rows(each, 150) for each in (10**6, 10 * 10**6, 10**9)] == [320, 150, 40], "an input's own go together"


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
