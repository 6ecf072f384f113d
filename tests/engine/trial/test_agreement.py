"""What rounding may change between two forms of a network, and what it may not."""

import logging
import re

import pytest
import torch
from torch import Tensor

from anisocert.engine.trial import agreement
from anisocert.engine.trial.agreement import identical, leads_kept, moves_no_more, no_worse, same_votes

ROWS = 4000


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(ROWS, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def noise(scores: Tensor, scale: float) -> Tensor:
    return scale * torch.randn(scores.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("precision", "rounding"), [("float32", 1e-5), ("bfloat16", 2e-3)])
def test_rounding_is_let_through(scores, precision, rounding):
    others = scores + noise(scores, rounding)
    moved = int((scores.argmax(1) != others.argmax(1)).sum())
    assert moved > 0 or precision == "float32"
    assert same_votes(scores, others, precision)
    assert same_votes(scores, scores, precision)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_more_moved_votes_than_rounding_moves(scores, precision):
    """Also where each score alone is close enough."""
    others = scores + noise(scores, 0.05)
    assert not same_votes(scores, others, precision)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_single_vote_that_was_no_tie(scores, precision):
    row = int((scores.topk(2).values.diff(dim=1)).abs()[:, 0].argmax())
    others = scores.clone()
    others[row] = scores[row].flip(0)
    assert not same_votes(scores, others, precision)


def test_a_wide_class_excuses_nothing_in_the_others(scores):
    wide = torch.cat([scores, 1e6 * noise(scores, 1.0)[:, :1] - 1e9], 1)
    others = wide.clone()
    others[:, :10] += 2
    others[:, 3] -= 4  # class 3 wins nowhere now
    assert not same_votes(wide, others, "bfloat16")
    assert same_votes(wide, wide + noise(wide, 1e-5), "float32")


def test_classes_out_of_the_question_may_change_by_orders_of_magnitude(scores):
    logits = 60 * scores
    others = logits * (1 + noise(logits, 2e-4))
    assert same_votes(logits.softmax(1), others.softmax(1), "bfloat16")


def test_nan_is_like_nan_and_like_nothing_else(scores):
    holed = scores.clone()
    holed[3, 4] = torch.nan
    assert same_votes(holed, holed.clone(), "float32")
    assert identical(holed, holed.clone())
    assert not same_votes(holed, scores, "float32")
    assert not same_votes(scores, holed, "float32")
    assert not same_votes(scores, scores[:, :9], "float32")


def test_leads(scores):
    assert leads_kept(scores, scores + noise(scores, 1e-9))
    assert leads_kept(scores, scores + 5)
    assert not leads_kept(scores, scores + noise(scores, 0.01))
    assert not leads_kept(scores, scores.flip(1))
    masked = scores.clone()
    masked[:, 2] = -torch.inf
    assert leads_kept(masked, masked.clone())


def test_near_ties_may_all_be_turned_by_rounding_and_clear_votes_may_not(caplog):
    """A network may see two classes alike in a whole kind of inputs, as in noise; a shift then moves every vote."""
    generator = torch.Generator().manual_seed(0)
    exact, noise, other = torch.randn(3, 400, 10, generator=generator).unbind(0)
    exact[:, 0], exact[:, 1] = 5.0, 5.001
    plain, shifted = exact + 0.01 * noise.abs(), exact + 0.01 * other
    plain[:, 1], shifted[:, 1] = exact[:, 1] + 0.02, exact[:, 1] - 0.02
    assert int((plain.argmax(1) != exact.argmax(1)).sum()) < 40 < 350 < int((shifted.argmax(1) != 1).sum())
    assert no_worse(exact, plain, shifted)
    assert not moves_no_more(exact, plain, shifted)
    assert moves_no_more(exact, plain, plain)
    exact[:, 1] = 12.0
    turned = exact.clone()
    turned[:8, 5] = 13.0  # a few rows, whose errors the mean of all hides where rounding is coarse
    with caplog.at_level(logging.INFO):
        assert not no_worse(exact, exact + 0.6 * noise, turned)
    assert "8 of 400 votes moved that were no near ties" in caplog.text


def test_a_form_that_rounds_as_much_as_the_model_itself_is_no_worse():
    generator = torch.Generator().manual_seed(0)
    exact, noise, other = torch.randn(3, 400, 10, generator=generator).unbind(0)
    plain = exact + 0.2 * noise
    assert no_worse(exact, plain, exact + 0.2 * other)
    assert no_worse(exact, plain, exact)
    assert not no_worse(exact, plain, exact + other)
    assert not no_worse(exact, plain, exact.roll(1, 1))
    assert not no_worse(exact, plain, exact[:, :9])
    assert not no_worse(exact, plain, torch.full_like(exact, torch.nan))
    worse_on_some = exact + 0.2 * other
    worse_on_some[1::4] += 2 * other[1::4]  # one kind of inputs in four
    assert not no_worse(exact, plain, worse_on_some)
    hidden = torch.cat([exact, torch.full((400, 1), -1e9)], 1)
    rounded = hidden.clone()
    rounded[:, -1] *= 1 + 1e-3 * torch.randn(400, generator=generator)
    rounded[:, 0] += 100  # wins everywhere
    hidden[:, 0] += 100
    noise = hidden.clone()
    noise[:, 1:10] = torch.randn(400, 9, generator=generator)
    assert not no_worse(hidden, rounded, noise)  # one class of a huge size does not hide the others


def thousand(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of a trained network, and twice with errors: it sees inputs of one kind much alike, so do rounded weights.

    Of each class there is one error for all of them, and smaller ones of each input. The form's are twice as large.
    """
    draw = torch.Generator().manual_seed(seed)
    exact = 2 * torch.randn(1, 1000, generator=draw) + 0.3 * torch.randn(256, 1000, generator=draw)
    scale = 0.04 * (0.4 * torch.randn(1000, generator=draw)).exp()

    def off(times: float) -> Tensor:
        alike, apart = torch.randn(1000, generator=draw), torch.randn(256, 1000, generator=draw)
        return exact + times * scale * (alike + 0.7 * apart)

    return exact, off(1.0), off(2.0)


@pytest.mark.parametrize("seed", range(20))
def test_what_rounded_weights_do_to_all_inputs_alike_refuses_no_form(seed):
    exact, plain, form = thousand(seed)
    usual, found = ((scores - exact).square().mean(0) for scores in (plain, form))
    assert (found / usual.clamp_min(usual.median())).max().sqrt() > 4
    assert no_worse(exact, plain, form)
    form[:, 17] -= 3.0  # one class of a thousand, which need not be anybody's vote
    assert not no_worse(exact, plain, form)


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_that_are_exchanged_are_found_where_they_are_as_likely(seed, caplog):
    """Nobody votes for them in the sample, and both are wrong by no more than chance: but for each input otherwise."""
    exact, plain, form = thousand(seed)
    to = exact[:, 9].mean() - exact[:, 8].mean()
    for scores in (exact, plain, form):
        scores[:, 8] += to
    assert no_worse(exact, plain, form)
    form[:, [8, 9]] = form[:, [9, 8]]
    with caplog.at_level(logging.INFO):
        assert not no_worse(exact, plain, form)
    _, one, apart = map(float, re.findall(r"\d+\.\d", caplog.text.partition("scores are")[2]))
    assert one < 14
    assert apart > 5


@pytest.mark.parametrize(("times", "right"), [(2.5, True), (3.5, False)])
def test_how_much_worse_a_form_may_be_as_a_whole(times, right):
    draw = torch.Generator().manual_seed(0)
    exact, one, other = torch.randn(3, 480, 10, generator=draw).unbind(0)
    assert no_worse(exact, exact + 0.01 * one, exact + times * 0.01 * other) == right


@pytest.mark.parametrize(("off", "right"), [(2.0, True), (4.3, False)])
def test_of_few_classes_none_is_far_off_by_chance(off, right):
    """Where rounding is coarse, so large a shift would give one class nearly every vote."""
    draw = torch.Generator().manual_seed(0)
    exact, one, other = torch.randn(3, 480, 10, generator=draw).unbind(0)
    form = exact + 0.3 * other
    form[:, 0] += off
    assert no_worse(exact, exact + 0.3 * one, form) == right


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_are_compared_by_their_logarithms(seed, monkeypatch):
    """The few likely ones are off by far more than the others, and pull the others along."""
    exact, plain, form = ((6 * scores).softmax(1) for scores in thousand(seed))
    assert no_worse(exact, plain, form)
    assert not no_worse(exact, plain, form.roll(1, 1))
    monkeypatch.setattr(agreement, "are_probabilities", lambda scores: False)
    assert not no_worse(exact, plain, form)


def test_inputs_with_large_scores_excuse_nothing_in_those_with_small_ones(caplog):
    """As of exponentials: by size the errors of half the inputs are nothing, and their votes would be."""
    draw = torch.Generator().manual_seed(0)
    exact = (torch.randn(4000, 10, generator=draw) + 2 * torch.randn(4000, 1, generator=draw)).exp()
    plain, form = (exact * (1 + 2**-7 * torch.randn(exact.shape, generator=draw)) for _ in range(2))
    assert no_worse(exact, plain, form)
    small = exact.amax(1) < 5 * (plain - exact).square().mean().sqrt()
    assert small.float().mean() > 0.2
    form[small] = form[small].roll(1, 1)
    with caplog.at_level(logging.INFO):
        assert not no_worse(exact, plain, form)
    assert "inputs have scores that are off by more than 16 times the usual" in caplog.text


@pytest.mark.parametrize("rows", [480, 10_016])
@pytest.mark.parametrize("classes", [2, 3, 30])
@pytest.mark.parametrize("times", [1.0, 2.2])
def test_chance_alone_puts_no_input_far_off(classes, rows, times):
    """Also where the model happens to be exact, as where probabilities are 0 and 1."""
    draw = torch.Generator().manual_seed(1)
    for _ in range(5):
        exact = torch.randn(rows, classes, generator=draw)
        plain, form = (exact + 2**-6 * f * torch.randn(exact.shape, generator=draw) for f in (1.0, times))
        plain[::3] = exact[::3]
        form[::3] = exact[::3] * (1 + 2**-8)
        assert agreement._rows_no_worse(exact, plain, form)
