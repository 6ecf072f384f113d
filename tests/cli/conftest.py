"""The command line as a user meets it, but in this process, where torch is loaded already."""

import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anisocert.cli import main


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
def changed(forge: Callable[..., Path]) -> Callable[..., Path]:
    """changed(run, out, codes, **values): a copy with values of its first certified row, of these codes, changed."""

    def change(run: Path, out: Path, codes: str | None = None, /, **values: Any) -> Path:
        def first(rows: list[dict[str, Any]]) -> None:
            next(row for row in rows if row["prediction"] >= 0 and codes in (None, row["codes"])).update(values)

        return forge(Path(shutil.copytree(run, out)), first)

    return change
