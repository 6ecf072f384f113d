"""Keys are stored hashed, compared in constant time, and end when they are removed."""

import hmac
import json
import os
import time

import pytest

from anisocert.errors import ArgumentError
from anisocert.service import Key, KeyFile, add_key, keys, remove_key
from anisocert.service._rates import Rates
from anisocert.service.errors import RefusedError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_a_file_holds_hashes_and_is_its_owners(path):
    lock = path.with_name("keys.json.lock")
    lock.write_text("")
    lock.chmod(0o644)  # whom it lets open it, it lets hold it, and a key could not be removed
    token = add_key(path, "alice", rights=("admit", "lookup"))
    assert [one.stat().st_mode & 0o777 for one in (path, lock)] == [0o600] * 2
    assert token not in path.read_text()
    (key,) = KeyFile(path).keys()
    assert (key.name, key.rights) == ("alice", ("lookup", "admit"))
    assert key.sha256 not in repr(key)
    assert KeyFile(path).holder(token) == key


def test_keys_differ_and_are_long(path):
    tokens = {add_key(path, f"client{i}") for i in range(20)}
    assert len(tokens) == 20
    assert all(len(token) > 43 for token in tokens)  # 32 bytes in base64


@pytest.mark.parametrize("wrong", ["", "anisocert_", "x" * 10_000, "\udcff", "é"])
def test_nothing_else_is_a_key(path, wrong):
    token = add_key(path, "alice")
    file = KeyFile(path)
    assert file.holder(wrong) is None
    assert file.holder(token[:-1]) is None
    assert file.holder(token + "a") is None
    assert file.holder(file.keys()[0].sha256) is None


def test_every_key_is_compared_in_constant_time(path, monkeypatch):
    first, *_ = (add_key(path, name) for name in ("a", "b", "c"))
    compared, compare = [], hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both) or compare(*both))
    assert KeyFile(path).holder(first).name == "a"
    assert len(compared) == 3


def test_a_change_within_one_tick_of_the_clock_is_seen(path, monkeypatch):
    """Nothing that a file system says of the file is different, except perhaps one stamp."""
    token, file = add_key(path, "alice", rights=("admit",)), KeyFile(path)
    before = os.stat(path)
    assert file.holder(token).rights == ("admit",)
    path.write_text(path.read_text().replace('"admit"', '"plan" '))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    monkeypatch.setattr(keys.os, "stat", lambda _: before)
    assert file.holder(token).rights == ("plan",)


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_an_old_file_is_read_once_whatever_the_clock_does(path, monkeypatch, jump):
    read, seen, now = [], keys._read, [time.time_ns() + 2 * keys.RECENT]
    monkeypatch.setattr(keys, "_read", lambda path: read.append(path) or seen(path))
    monkeypatch.setattr(keys.time, "time_ns", lambda: now[0])
    token = add_key(path, "alice")
    file = KeyFile(path)
    del read[:]
    now[0] += jump * 1_000_000_000
    assert [file.holder(token).name for _ in range(3)] == ["alice"] * 3
    assert read == []
    add_key(path, "bob")
    assert [key.name for key in KeyFile.keys(file)] == ["alice", "bob"]


def test_a_running_service_sees_changes(path):
    token, file = add_key(path, "alice"), KeyFile(path)
    other = add_key(path, "bob")
    assert file.holder(other).name == "bob"
    remove_key(path, "alice")
    assert file.holder(token) is None
    path.unlink()
    with pytest.raises(ArgumentError, match="got none: anisocert keys add"):
        file.holder(other)


def test_names_are_used_once_and_must_be_there(path):
    add_key(path, "alice")
    with pytest.raises(ArgumentError, match="alice, which is in"):
        add_key(path, "alice")
    with pytest.raises(ArgumentError, match="got 'bob'; there are: alice"):
        remove_key(path, "bob")
    with pytest.raises(ArgumentError, match="expected the name of a key in letters"):
        add_key(path, "a b")
    assert [key.name for key in KeyFile(path).keys()] == ["alice"]  # noqa: SIM118


def test_a_file_that_others_may_write_is_refused(path):
    add_key(path, "alice")
    path.chmod(0o620)
    with pytest.raises(ArgumentError, match="writable by its owner alone, got more: chmod 600"):
        KeyFile(path)


def test_a_file_of_another_user_is_refused(path, request):
    """Whose rights are not this user's to give, whatever its mode says."""
    add_key(path, "alice")
    request.getfixturevalue("of_another")
    for use in (KeyFile, lambda path: add_key(path, "bob"), lambda path: remove_key(path, "alice")):
        with pytest.raises(ArgumentError, match=f"or to root, got a file of user {os.geteuid() + 1}: .* chown"):
            use(path)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"keys": 5}', '{"keys": [{"name": "a"}]}', '{"keys": [{"nam": 1}]}', "[" * 100_000]
)
def test_a_damaged_file_gives_no_rights(path, content):
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ArgumentError, match="keys"):
        KeyFile(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rights": ["all"]},
        {"rights": []},
        {"rights": "admit,lookup"},
        {"per_minute": 0},
        {"most_bytes": True},
        {"per_minute": 10**400},
    ],
)
def test_rights_and_limits_are_checked(wrong):
    with pytest.raises(ArgumentError, match="of key a"):
        Key("a", "0" * 64, **wrong)


def test_the_same_key_under_two_names_is_refused(path):
    add_key(path, "alice")
    said = json.loads(path.read_text())
    said["keys"].append(said["keys"][0] | {"name": "bob"})
    path.write_text(json.dumps(said))
    os.utime(path, ns=(1, 1))
    with pytest.raises(ArgumentError, match=r"each key in .* once"):
        KeyFile(path)


def test_inputs_per_minute():
    now = 0.0
    rates, key, other = Rates(lambda: now), Key("a", "0" * 64, per_minute=60), Key("b", "1" * 64, per_minute=60)
    rates.take(key, 50)
    rates.take(key, 10)
    with pytest.raises(RefusedError) as refused:
        rates.take(key, 5)
    assert (refused.value.status, refused.value.retry_after) == (429, 5)
    rates.take(other, 60)
    now = 4.9
    with pytest.raises(RefusedError):
        rates.take(key, 5)
    now = 5.0
    rates.take(key, 5)
    now = 1e6
    rates.take(key, 60)
    with pytest.raises(RefusedError):
        rates.take(key)
    with pytest.raises(RefusedError) as refused:
        rates.take(key, 61)
    assert refused.value.status == 413


@pytest.mark.parametrize("inputs", [2, 7, 59, 60])
def test_whoever_waits_as_told_is_let_in(inputs):
    """As requests do it: one is counted when it comes, all once it was read."""
    now = 0.3
    rates, key = Rates(lambda: now), Key("a", "0" * 64, per_minute=60)

    def wait():
        try:
            rates.take(key)
            rates.take(key, inputs, counted=1)
        except RefusedError as refused:
            return refused.retry_after
        return 0

    rates.take(key, 59)
    for _ in range(3):
        waited = [wait()]
        while waited[-1]:
            now += waited[-1]
            waited.append(wait())
        assert 0 < sum(waited) <= inputs + 1
        assert len(waited) <= 3  # one refusal before its inputs are known, and one after
    with pytest.raises(RefusedError) as refused:
        rates.take(key, 61, counted=1)
    assert refused.value.status == 413


@pytest.mark.parametrize("jump", [-7200, 7200])
def test_a_clock_that_is_set_gives_nobody_more_inputs(path, monkeypatch, jump):
    add_key(path, "alice", per_minute=3)
    (key,), rates, now = KeyFile(path).keys(), Rates(), time.time()
    rates.take(key, 3)
    monkeypatch.setattr(time, "time", lambda: now + jump)
    with pytest.raises(RefusedError, match="ask again in 20 s") as refused:
        rates.take(key)
    assert refused.value.retry_after == 20
