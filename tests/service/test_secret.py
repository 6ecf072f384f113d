"""The key of all noise is read from where only its owner can, and is left nowhere."""

import os

import pytest

from anisocert.errors import ArgumentError
from anisocert.service.secret import secret_of


def test_from_a_file_of_its_owner(tmp_path, monkeypatch):
    monkeypatch.delenv("ANISOCERT_SECRET", raising=False)
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123\n")
    path.chmod(0o600)
    assert secret_of(path) == b"0123456789abcdef0123"
    path.chmod(0o640)
    with pytest.raises(ArgumentError, match="readable by its owner alone, got more: chmod 600") as refused:
        secret_of(path)
    assert "0123" not in str(refused.value)


def test_one_that_another_user_knows_is_refused(tmp_path, of_another):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123")
    path.chmod(0o600)
    with pytest.raises(ArgumentError, match="or to root, got a file of user") as refused:
        secret_of(path)
    assert "0123" not in str(refused.value)


def test_from_the_environment_which_then_forgets_it(monkeypatch):
    monkeypatch.setenv("ANISOCERT_SECRET", "0123456789abcdef")
    assert secret_of(None) == b"0123456789abcdef"
    assert "ANISOCERT_SECRET" not in os.environ


def test_short_ones_are_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("ANISOCERT_SECRET", "tooshort")
    with pytest.raises(ArgumentError, match="at least 16 bytes") as refused:
        secret_of(None)
    assert "tooshort" not in str(refused.value)


def test_without_one_each_process_draws_its_own(monkeypatch):
    monkeypatch.delenv("ANISOCERT_SECRET", raising=False)
    assert len({secret_of(None) for _ in range(3)}) == 3
