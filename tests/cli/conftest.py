"""The command line as a user meets it, but in this process, where torch is loaded already."""

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anisocert.cli import main
from anisocert.runs import folder as files
from anisocert.runs import read_run
from anisocert.runs.files import read_description
from anisocert.runs.rows import SCHEMA


@dataclass(frozen=True)
class Said:
    """What a command wrote to its standard output and error."""

    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command line; an error unless it ends with `code`."""

    def run(*arguments: object, code: int = 0) -> Said:
        monkeypatch.setattr(sys, "argv", ["anisocert", *map(str, arguments)])
        # else help and errors name the program `python -m pytest.anisocert` where that is how the tests were started
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
        monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
        monkeypatch.setenv("_TYPER_FORCE_DISABLE_TERMINAL", "1")
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said, ended = capsys.readouterr(), end.value.code
        assert (ended or 0) == code, said.out + said.err
        return Said(said.out, said.err)

    return run


@pytest.fixture
def rewritten() -> Callable[..., Path]:
    """rewritten(run, out, rows, thetas): the run with these instead, and checksums that fit."""

    def write(run: Path, out: Path, rows: list[dict[str, Any]], thetas: Mapping[int, Any]) -> Path:
        files.clear(out)
        files.write_thetas(out, thetas.items())
        files.write_table(out, pa.Table.from_pylist(rows, SCHEMA))
        files.describe(out, {k: v for k, v in read_description(run).items() if k != "files"})
        return out

    return write


@pytest.fixture
def changed(rewritten: Callable[..., Path]) -> Callable[..., Path]:
    """changed(run, out, codes, **values): the run with values of its first certified row, of these codes, changed."""

    def change(run: Path, out: Path, codes: str | None = None, /, **values: Any) -> Path:
        stored = read_run(run)
        rows = [dict(row) for row in stored.rows]
        next(row for row in rows if row["prediction"] >= 0 and codes in (None, row["codes"])).update(values)
        return rewritten(run, out, rows, stored.thetas)

    return change
