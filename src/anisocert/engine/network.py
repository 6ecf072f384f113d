"""A classifier as the engine runs it: frozen, checked, in one precision, on one device, one batch shape per run."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anisocert.engine._gradients import Gradients
from anisocert.engine._rows import first_rung, gradient_rows, rungs
from anisocert.engine.first_call import taking
from anisocert.engine.given import Classifier, expect_classifier, frozen, home, own_copy, usable
from anisocert.engine.grid import Base
from anisocert.engine.identity import hash_of, name_of
from anisocert.engine.launching import Replayed, compiled, pays, replayed
from anisocert.engine.numerics import Numerics, keep_large_blocks, native_precision, out_of_memory
from anisocert.engine.probe import probe_inputs
from anisocert.engine.rewriting import first_right, vote_forms
from anisocert.engine.told import is_told
from anisocert.engine.trial import Trial, expect_shape, identical, leads_kept
from anisocert.errors import ArgumentError, ModelError
from anisocert.inputs import told

log = logging.getLogger(__name__)

MOST_COMPARED = 1024  # rows of inputs of a user's, scored by the model itself and by the form that votes
CHANGED = "expected the same scores for an input in every call, got different ones {} the votes"
OnRows = Callable[[int, bool], None]
"""Called with the rows of each call of a network, and whether with gradients, while votes and searches are at work."""


class Network:
    """A model in the form in which its votes are counted: frozen, checked, in one precision, on one device.

    `certify`, `predict` and `System` make one from the model they are given; make one yourself for several calls.

    Args:
        model: maps `b x *shape` to `b x num_classes` scores (logits or probabilities: votes only ask which is largest).
            With an attribute `told_theta` that is true it is told theta, and maps `b x 2 x *shape`: see `engine.told`.
        num_classes: how many scores it gives.
        device: where it runs. Default: where its weights are.
        numerics: precision, compilation, rows per call and grid. Default: what suits the device.
        model_id: stands for the model in hashes; required when the model is not an `nn.Module`, or one with parts that
            cannot be read. It must change whenever the model's answers do; precision and grid are added to it.
    """

    def __init__(
        self,
        model: Classifier,
        num_classes: int,
        device: torch.device | str | None = None,
        numerics: Numerics | None = None,
        model_id: str | None = None,
    ) -> None:
        if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer) or num_classes < 2:
            raise ArgumentError(f"expected num_classes, a whole number >= 2, got {num_classes!r}")
        if not isinstance(numerics, Numerics | None):
            raise ArgumentError(
                f"expected numerics as in numerics=ac.Numerics(precision='float32'), got {told(numerics)}"
            )
        expect_classifier(model, model_id)
        self.device = home(model) if device is None else usable(device)
        self.model = frozen(model, self.device, model_id is not None) if isinstance(model, nn.Module) else model
        self.told_theta = is_told(model)
        self.num_classes = int(num_classes)
        numerics = numerics or Numerics()
        self.grid = numerics.step
        precision = numerics.precision or native_precision(self.device)
        self.numerics = replace(numerics, precision=precision, grid=self.grid)
        settings = (precision, self.grid)
        self.hash = hash_of(self.model, *settings) if model_id is None else name_of(model_id, *settings)
        self.on_rows: OnRows | None = None
        self.compile_seconds = 0.0
        self._trial = Trial(self.model, precision, self.device, self.told_theta)
        self._asked, self._run = self.numerics, self.model
        self._shape: tuple[int, ...] | None = None
        self._parts = dict[str, Network]()
        self._first_scores: Tensor | None = None  # by the form that votes, of inputs of this shape:
        self._first_shape: tuple[int, ...] | None = None
        self._tried_on_own = False
        self._gradients = Gradients(self._trial)
        if self.device.type == "cpu":
            keep_large_blocks()

    def scores(self, x: Tensor) -> Tensor:
        """Scores of a batch in this network's numerics. x: `b x *shape` -> `b x num_classes`, as `Query.given` is."""
        if self._shape is not None and tuple(x.shape[1:]) != self._trial.takes(self._shape):
            kind = "inputs beside theta" if self.told_theta else "inputs"  # a graph may know their sizes
            raise ArgumentError(f"expected {kind}, {self._trial.takes(self._shape)}, got {tuple(x.shape[1:])}")
        scores = self._trial.evaluate(self._run, x)
        self._tell_rows(len(x), False)
        return scores

    @contextmanager
    def lent(self) -> Iterator[Sequence[Tensor]]:
        """Memory for calls' inputs, to be used in turn, from which scores are computed without a copy; often none.

        Nobody else is lent it meanwhile.
        """
        with self._run.lent() if isinstance(self._run, Replayed) else nullcontext(()) as places:
            yield places

    def part(self, name: str, model: nn.Module, num_classes: int) -> "Network":
        """A part of the model, or another use of its parts, that votes as it does; made once for each name."""
        if name not in self._parts:
            network = Network(model, num_classes, self.device, self.numerics, f"{self.hash} {name}")
            network.on_rows = self._tell_rows
            self._parts[name] = network
        return self._parts[name]

    def _tell_rows(self, rows: int, gradients: bool) -> None:
        if self.on_rows is not None:
            self.on_rows(rows, gradients)

    def differentiable_scores(self, x: Tensor, one_shape: bool = False) -> Tensor:
        """Scores of a batch with gradients to it, never to weights: for searches; no vote is counted with them.

        one_shape: most calls have this batch's shape. On a GPU a network whose votes are compiled is then compiled for
        it, in both passes.
        """
        compiled = one_shape and self.device.type == "cuda" and bool(self.numerics.compile)
        scores = self._gradients.scores(x, compiled)
        self._tell_rows(len(x), True)
        return scores

    def probe(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Scores of a few fixed inputs, by the model as it was given: for `same_behaviour`. `rows x num_classes`.

        A model that its own scores do not tell all about, as a `Coded`, has `scores_of_parts`: several such blocks.
        """
        x = self._trial.with_levels(torch.from_numpy(probe_inputs(self._trial.takes(shape))).to(self.device))
        model = self._fresh()  # whose first call it is: nothing that is kept of it reaches a vote
        parts: Classifier | None = getattr(model, "scores_of_parts", None)
        with taking(shape, model):
            scores = self._trial.evaluate(parts or model, x)
        if parts is None:
            expect_shape(scores, len(x), self.num_classes)
        return scores.float().cpu().numpy()

    def fit(self, shape: tuple[int, ...], votes: int) -> int:
        """Settle, once and before the first counted vote, how this network runs; returns the rows per call.

        shape: of one input; votes: how many are planned. Checks the network on one batch, finds the largest batch of
        the ladder that fits into memory, rewrites the network and, where the votes repay it, compiles it. Inputs of
        a different shape settle everything anew, as the rewritten network knows the sizes of its maps.
        """
        shape = tuple(shape)
        if self._shape is not None and shape != self._shape:
            self.numerics, self._shape = self._asked, None
            self._run = self.model  # before the next form needs the memory of this one's graph
        if shape != self._first_shape:
            self._first_shape, self._first_scores = shape, None
        fresh = self._fresh() if self._shape is None else None
        while self._shape is None:
            takes, largest = self._trial.takes(shape), partial(self._trial.largest_map, shape)
            rows = self.numerics.rows or first_rung(self.device, takes, largest)
            self.numerics = replace(self.numerics, rows=rows)
            try:
                sample = self._trial.inputs(rows, shape)
                plain = self._trial.checked(sample, self.num_classes)
                self._expect_unchanged(shape, rows)  # where memory ran out since
                if isinstance(fresh, nn.Module):
                    self._trial.expect_any_beginning(fresh, sample, plain)
                self._run = self._prepared(sample, plain, votes)
                scores = self._tried(sample)
                if not self._trial.agrees(sample, plain, scores):
                    raise ModelError(CHANGED.format("before"))
                self._shape, self._first_scores, self._tried_on_own = shape, scores, False
            except RuntimeError as error:
                self.shrink(error)
        assert self.numerics.rows is not None
        return self.numerics.rows

    def try_on(self, x: Tensor, scales: Tensor, base: Base) -> None:
        """Compare the form in use with the model on inputs that votes are about, once, as their range may differ.

        x: `b x *shape`; scales: `b x j x *shape`, or what broadcasts to it; no vote has the noise that is drawn here.
        If the form scores them otherwise than the model, the model itself votes instead.
        """
        if self._tried_on_own:
            return
        assert self._shape is not None
        assert self.numerics.rows is not None
        sample = self._trial.own_inputs(x, scales, self.numerics.rows, base, self.grid)
        few = sample[:MOST_COMPARED]
        plain = self._trial.own_scores(few)
        if self._run is not self.model and not self._trial.agrees(few, plain, self._tried(sample)[: len(few)]):
            self._expect_unchanged(self._shape, self.numerics.rows)
            log.warning("rewritten or compiled, the network scores these inputs otherwise: it runs as it is")
            self._run, self.numerics = self.model, replace(self.numerics, compile=False)
            self._first_scores = self._tried(self._trial.inputs(self.numerics.rows or 0, self._shape))
        self._tried_on_own = True

    def gradient_rows(self, copies: int) -> int:
        """Rows of a step with gradients that pay and fit, in a network that is fitted. copies: of one input."""
        assert self.numerics.rows is not None
        assert self._shape is not None
        per_row = partial(self._gradients.kept_bytes, self._shape)
        return gradient_rows(self.device, self.numerics.rows, copies, per_row)

    def give_up_gradient_graph(self) -> bool:
        """Give up the CUDA graph of a search's steps, for its memory; whether there was one."""
        given_up = self._gradients.give_up_graph()
        if given_up:
            log.warning("out of memory; continuing without a CUDA graph of the search's steps")
        return given_up

    def expect_no_state(self) -> None:
        """An error unless the network, and each part that voted, gives the scores that it gave before its first vote.

        To be called after the last vote: one that changes from call to call has no answer that could be certified.
        """
        for part in self._parts.values():
            if part._shape is not None:
                part.expect_no_state()
        assert self._shape is not None
        assert self._first_scores is not None
        sample = self._trial.inputs(len(self._first_scores), self._shape)
        for launched in (False, True) if isinstance(self._run, Replayed) else (False,):  # replays would hide some state
            again = self._tried(sample, launched)
            if not identical(self._first_scores, again) and not leads_kept(self._first_scores, again):
                raise ModelError(CHANGED.format("after"))

    def _expect_unchanged(self, shape: tuple[int, ...], rows: int) -> None:
        """An error if the model no longer gives the first scores, where there are any, before others replace them.

        Else what changed since, as by the gradients of a search, would be taken for the network.
        """
        if self._first_scores is not None:
            sample = self._trial.inputs(len(self._first_scores), shape)[:rows]
            if not self._trial.agrees(sample, self._trial.plain(sample.clone()), self._first_scores[:rows]):
                raise ModelError(CHANGED.format("before"))

    def shrink(self, error: RuntimeError) -> None:
        """Fall back to a smaller batch after running out of memory; any other error is raised again.

        Graphs go before rows do, as votes without them are the same: first that of searches, which no vote needs.
        """
        if not out_of_memory(error):
            raise error
        if self._give_up_graph():
            return
        smaller = [rows for rows in rungs(self.device) if rows < (self.numerics.rows or 0)]
        if not smaller:
            raise ModelError(f"out of memory with only {self.numerics.rows} rows per call on {self.device}") from error
        log.warning("out of memory with %s rows per call; continuing with %s", self.numerics.rows, smaller[0])
        self.numerics = replace(self.numerics, rows=smaller[0])
        self._run, self._shape = self.model, None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _give_up_graph(self) -> bool:
        """Give up a CUDA graph, for its memory; whether there was one."""
        if not self.give_up_gradient_graph():
            if not isinstance(self._run, Replayed):
                return False
            log.warning("out of memory; continuing without a CUDA graph of the network")
            self._run = self._run.launched
        torch.cuda.empty_cache()
        return True

    def _fresh(self) -> Classifier:
        """A copy of the model, where it can be copied; before the first fit, one that was never called."""
        return own_copy(self.model) if isinstance(self.model, nn.Module) else self.model

    def _tried(self, sample: Tensor, launched: bool = False) -> Tensor:
        """Scores of a sample by the form that votes; launched: not by replays of it."""
        while True:
            run = self._run.launched if launched and isinstance(self._run, Replayed) else self._run
            try:
                return self._trial.evaluate(run, sample.clone())
            except RuntimeError as error:
                if not out_of_memory(error) or not self._give_up_graph():
                    raise

    def _prepared(self, sample: Tensor, plain: Tensor, votes: int) -> Classifier:
        """The model in the form that is to run. plain: its scores of the sample."""
        if not isinstance(self.model, nn.Module):
            self.numerics = replace(self.numerics, compile=False)
            return self.model
        right = self._trial.right(sample, plain)
        run = first_right(vote_forms(self.model, sample, self._trial.precision), right) or self.model
        fast: Classifier = run
        if self.numerics.compile or (self.numerics.compile is None and pays(self._trial.evaluate, run, sample, votes)):
            fast = self._compiled(run, sample, right)
        self.numerics = replace(self.numerics, compile=fast is not run)
        return replayed(self._trial.evaluate, fast, run, sample)

    def _compiled(self, folded: nn.Module, sample: Tensor, right: Callable[[Classifier], bool]) -> Classifier:
        asked = self._asked.compile is not None  # what was chosen before memory ran out, nobody asked for
        run, self.compile_seconds = compiled(self._trial.evaluate, folded, sample, right, asked)
        return run
