"""benchmarks/train.py times every recipe that it names by default."""

from argparse import Namespace

from anisocert.train import RECIPES


def test_every_recipe_that_is_timed_learns_from_nothing_but_the_data(script):
    train = script("train")
    options = Namespace(arch="small-cnn", device="cpu")
    assert set(train.TIMED) < set(RECIPES)
    assert all(train.flops(RECIPES[name](), options) > 0 for name in train.TIMED)
