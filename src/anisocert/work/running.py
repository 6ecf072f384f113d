"""Doing a run: settle what it is, hand chunks to workers, keep what comes back, merge at the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from anisocert.durable import claim
from anisocert.engine.probe import as_json, from_json
from anisocert.errors import ArgumentError
from anisocert.memory import Memory, Stats, shown
from anisocert.runs import Configuration
from anisocert.runs.differences import differences
from anisocert.runs.files import DESCRIPTION, expect_own_folders, read_description
from anisocert.runs.folder import claim_files
from anisocert.runs.loading import open_memory
from anisocert.work._merging import merge
from anisocert.work._scheduling import Rows, Schedule, answered
from anisocert.work.job import Job
from anisocert.work.unfinished import Unfinished
from anisocert.work.workers import Workers


@dataclass(frozen=True)
class Circumstances:
    """What does not change a result. shard: (number from 1, how many). seconds: when to stop.

    on_begin is called with how many inputs of the shard are done, and of how many; on_rows with rows as they are done;
    on_memory with how many more certificates went through the memory. force: also replace files that are not a run's.
    """

    shard: tuple[int, int] = (1, 1)
    seconds: float | None = None
    on_begin: Callable[[int, int], None] = lambda done, of: None
    on_rows: Callable[[Rows], None] = lambda _: None
    on_memory: Callable[[int], None] = lambda _: None
    force: bool = False

    def __post_init__(self) -> None:
        number, count = self.shard
        if not 1 <= number <= count:
            raise ArgumentError(f"expected shard 1/{count} to {count}/{count}, got {number}/{count}")


@dataclass(frozen=True)
class Outcome:
    """How far a run has come. done, of: inputs of the whole run; left: of this shard, or of all of them."""

    finished: bool
    done: int
    of: int
    left: int


def certify_run(job: Job, folder: Path, workers: Callable[[], Workers], circumstances: Circumstances) -> Outcome:
    """Do a run, or what is left of it, in its folder. workers: makes them, once there is work."""
    seconds = circumstances.seconds
    deadline = None if seconds is None else time.monotonic() + seconds
    expect_own_folders(folder)  # now, not after the votes
    unfinished, finished = Unfinished(folder), _is_finished(folder)
    begun = _begun(job, folder)
    if finished:
        unfinished.remove()  # an interrupted merge may not have done so
        return Outcome(True, len(job.ids), len(job.ids), 0)
    job.check()
    if begun is None and not _is_finished(folder):
        claim_files(folder, circumstances.force)
        for path in unfinished.foreign():
            claim(path, circumstances.force)
    check_memory(job.configuration, job, begun)

    def keep(rows: Rows) -> None:
        try:
            unfinished.add(rows)
        except FileNotFoundError:
            if not _is_finished(folder):  # shards that overlap with this one may have finished the run
                raise
        circumstances.on_rows(rows)

    with unfinished.working(circumstances.shard):
        begun = begun or _begun(job, folder)  # another shard may have begun it by now
        left, (number, count) = _left(job, folder, circumstances.shard), circumstances.shard
        size = len(job.ids[number - 1 :: count])
        circumstances.on_begin(size - len(left), size)
        unfinished.warn_of_others()
        if left:
            at_work = workers()
            try:
                begun = begun or _begin(job, unfinished, at_work)
                left = Schedule(job, begun, at_work, keep, deadline).work(left)
            finally:
                at_work.close()
        with unfinished.settling():
            return _end(job, begun, unfinished, len(left), circumstances)


def inputs_left(job: Job, folder: Path | None, shard: tuple[int, int]) -> list[int]:
    """The inputs that a shard still has to do; an error if the folder holds a different run. None: a new run."""
    if folder is None:
        return job.ids[shard[0] - 1 :: shard[1]]
    _begun(job, folder)
    return _left(job, folder, shard)


def _left(job: Job, folder: Path, shard: tuple[int, int]) -> list[int]:
    if _is_finished(folder):
        return []
    done = Unfinished(folder).where()
    return [number for number in job.ids[shard[0] - 1 :: shard[1]] if number not in done]


def _is_finished(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _begun(job: Job, folder: Path) -> Configuration | None:
    """What the folder's run began with, finished or not; None if there is none, an error if it is a different run."""
    if finished := _is_finished(folder):
        begun: Configuration | None = Configuration.from_dict(read_description(folder))
    else:
        begun = Unfinished(folder).configuration()
    if begun is None:
        return None
    compared = replace(begun, device=job.configuration.device) if finished else begun
    if finished and job.configuration.memory is None and not begun.lifetime:  # one may have been added later
        compared = replace(compared, memory=None, memory_policy=None, memory_prefer="volume")
    if differing := differences(compared, job.hashed(compared.numerics)):
        raise ArgumentError(
            f"expected the configuration that {folder} began with, got a different one: {'; '.join(differing)}: "
            "choose another --out, repeat its own options, or remove that folder"
        )
    return begun


def check_memory(configuration: Configuration, job: Job, begun: Configuration | None) -> None:
    """An error, before the work, unless the memory, if it exists, will take this run's certificates."""
    if configuration.memory is None or not Memory.exists(configuration.memory):
        return
    with Memory.open(configuration.memory, configuration.memory_policy, prefer=configuration.memory_prefer) as memory:
        stats = memory.stats()
        if begun is not None and begun.probe is not None and stats.model_hash == begun.model_hash:
            memory.expect(begun.model_hash or "", from_json(begun.probe))
        check_lifetime(configuration, stats)
        for name, has, wanted in (
            ("norm", stats.norm, int(configuration.norm[1])),
            ("shape", stats.shape, job.examples.shape),
            ("model", stats.model_hash or None, begun.model_hash if begun else None),
        ):
            if has is not None and wanted is not None and has != wanted:
                remedy = f"choose another --memory for this {'network' if name == 'model' else name}"
                got = f"{shown(configuration.memory)} for {has}"
                raise ArgumentError(f"expected a memory for {name} {wanted}, got {got}: {remedy}")
        memory.expect_inputs(job.ids, lambda number: job.chunk([number]).x[0])


def check_lifetime(configuration: Configuration, known: Stats) -> None:
    """An error unless run and memory agree on whether alpha covers the memory's lifetime."""
    lifetime = configuration.alpha if configuration.lifetime else None
    if known.lifetime == lifetime or (known.lifetime is None and known.entries == 0):
        return
    has = "alpha for each certificate" if known.lifetime is None else f"a lifetime alpha of {known.lifetime:g}"
    wanted = "alpha for each certificate" if lifetime is None else f"a lifetime alpha of {lifetime:g}"
    raise ArgumentError(f"expected a memory with {wanted}, got {shown(configuration.memory or '')} with {has}")


def _begin(job: Job, unfinished: Unfinished, workers: Workers) -> Configuration:
    """The configuration that the run begins with: set by another process, or now, when the first worker has settled it.

    One process at a time, so that all shards run the network in the same way.
    """
    with unfinished.settling():
        if (begun := _begun(job, unfinished.folder)) is not None:
            return begun
        workers.start(0, "settle", job.configuration.numerics, job.examples.shape, len(job.ids))
        while not (answers := workers.wait()):
            pass
        settled = answered(answers[0][1])
        begun = replace(
            job.configuration, numerics=settled.numerics, device=settled.device, model_hash=settled.model_hash,
            probe=as_json(settled.probe), input_shape=list(job.examples.shape),
        )  # fmt: skip
        check_memory(begun, job, begun)
        if begun.lifetime:
            # Now and for good: whatever becomes of this run, nobody else gets these shares of alpha.
            with open_memory(begun) as memory:
                inputs = (job.chunk([number]).x[0] for number in job.ids)
                begun = replace(begun, lifetime_from=memory.reserve(job.ids, begun.seed, inputs))
        unfinished.begin(begun)
        return begun


def progress_of(job: Job, folder: Path) -> Outcome:
    """How far an unfinished run has come."""
    done = len(Unfinished(folder).where().keys() & set(job.ids))
    return Outcome(False, done, len(job.ids), len(job.ids) - done)


def _end(
    job: Job, begun: Configuration | None, unfinished: Unfinished, left: int, circumstances: Circumstances
) -> Outcome:
    """Merge if all inputs are done, of all shards, and nobody else has merged."""
    if not _is_finished(unfinished.folder):
        reached = progress_of(job, unfinished.folder)
        if reached.left or begun is None:
            return replace(reached, left=left)
        merge(job, begun, unfinished, circumstances.on_memory)
    else:
        unfinished.remove()  # only what waiting for the lock has recreated
    return Outcome(True, len(job.ids), len(job.ids), 0)
