"""Connections that end at the worst moment: what was stored is told, what was not is denied, and nothing else."""

import contextlib
import os
import socket
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from anisocert.bounds import lifetime_alpha
from anisocert.memory import Memory, UnavailableError, UnknownOutcomeError

pytest.importorskip("psycopg", reason="psycopg is not installed")
from anisocert.memory.postgres import _session as postgres_session


class Wire:
    """Between a memory and its server: hands everything on, until it is told to lose a COMMIT or the answer to it."""

    def __init__(self, postgres, folder):
        self._server, self._folder = str(postgres.folder / ".s.PGSQL.5432"), folder
        self.lose, self.down, self.meanwhile, self._losing = None, False, lambda: None, threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._losing:  # or it would ask before the rest has happened
                pass
            if self.down:
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        back = threading.Thread(target=self._hand_on, args=(server, client), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.lose and b"COMMIT\0" in data:
                    with self._losing:
                        self._lose(server, client, data)
                    break
                server.sendall(data)
        server.close()
        client.close()

    def _lose(self, server, client, data):
        moment, self.lose = self.lose, None
        client.shutdown(socket.SHUT_WR)  # no answer gets through
        if moment == "answer":
            before = self.heard
            server.sendall(data)
            while self.heard == before:  # it has ended
                time.sleep(0.001)
        else:
            server.shutdown(socket.SHUT_RDWR)
        self.meanwhile()

    heard = 0

    def _hand_on(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self.heard += 1
                with contextlib.suppress(OSError):
                    client.sendall(data)

    def close(self):
        self._listener.close()


@pytest.fixture
def wire(postgres, tmp_path_factory):
    wire = Wire(postgres, tmp_path_factory.mktemp("wire"))
    yield wire
    wire.close()


@pytest.fixture
def wired(postgres, postgres_url, wire):
    """The URL of the same memory, through the wire."""
    return postgres_url.replace(str(postgres.folder), str(wire._folder))


def reserved(proposal, id_, center, axes=None):
    return replace(proposal(id_, 1, center, axes), seed=7, alpha=float(lifetime_alpha(0.1, id_ + 1)))


OPERATIONS = {
    "admit": (lambda m, p: m.admit(p(1, 1, [9, 0], [1, 1])), lambda m: m.find(1) is not None),
    "abstain": (lambda m, p: m.admit(p(1, 1, [9, 0])), lambda m: m.attempts([9.0, 0.0]) == 1),
    "expect": (lambda m, p: m.expect("model", np.ones((2, 3), np.float32)), lambda m: m._head().probe is not None),
    "reset": (lambda m, p: m.reset(), lambda m: len(m) == 0),
}


@pytest.mark.parametrize("others", [False, True], ids=["alone", "among others"])
@pytest.mark.parametrize("moment", ["commit", "answer"])
@pytest.mark.parametrize("what", OPERATIONS)
def test_a_lost_commit_is_looked_up(postgres_url, wire, wired, proposal, what, moment, others):
    do, done = OPERATIONS[what]
    with Memory.open(wired) as memory, Memory.open(postgres_url) as other:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        if others:  # somebody stores something before the lost one can look
            wire.meanwhile = lambda: other.admit(proposal(2, 2, [0, 9], [1, 1]))
        wire.lose = moment
        if moment == "answer":
            answer = do(memory, proposal)  # acknowledged
            assert what != "admit" or answer.note == "kept"
        else:
            with pytest.raises(UnavailableError, match="nothing was stored: ask again") as raised:
                do(memory, proposal)
            assert not isinstance(raised.value, UnknownOutcomeError)
        wire.meanwhile = lambda: None
        if what == "reset" and others:
            assert len(other) == (1 if moment == "answer" else 2)
        else:
            assert done(other) == (moment == "answer")
        # The index in memory is right, whatever happened.
        assert (
            memory.lookup([0.0, 0.0]) is None if what == "reset" and moment == "answer" else memory.lookup([0.0, 0.0])
        )
        assert memory.admit(proposal(3, 1, [0, 20], [1, 1])).note == "kept"
        assert [c.id for c in memory.entries()] == [c.id for c in other.entries()]
        assert memory.check().ok
        assert other.check().ok


@pytest.mark.parametrize("moment", ["commit", "answer"])
def test_a_number_is_reserved_once(postgres_url, wire, wired, moment):
    with Memory.open(wired, lifetime=0.1) as memory, Memory.open(postgres_url) as other:
        wire.meanwhile = lambda: other.reserve([5], 7, [[5.0]])
        wire.lose = moment
        if moment == "answer":
            assert memory.reserve([4], 7, [[4.0]]) == 1
        else:
            with pytest.raises(UnavailableError):
                memory.reserve([4], 7, [[4.0]])
        taken = other.stats().numbers
        assert taken == (2 if moment == "answer" else 1)
        assert memory.reserve([6], 7, [[6.0]]) == taken + 1
        assert memory.check().ok


@pytest.mark.parametrize("moment", ["commit", "answer"])
def test_what_cannot_be_looked_up_is_unknown_and_asked_again(postgres_url, wire, wired, proposal, moment, monkeypatch):
    monkeypatch.setattr(postgres_session, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(postgres_session, "DOWN_SECONDS", 0.0)
    with Memory.open(wired) as memory, Memory.open(postgres_url) as other:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        wire.down, wire.lose = True, moment
        with pytest.raises(UnknownOutcomeError, match="Ask again: what was stored is the answer") as raised:
            memory.admit(proposal(1, 1, [9, 0], [1, 1]))
        assert "sec" not in str(raised.value).replace("seconds", "")
        assert (other.find(1) is not None) == (moment == "answer")
        with pytest.raises(UnavailableError):  # still down
            memory.lookup([9.0, 0.0])
        wire.down = False
        assert memory.admit(proposal(1, 1, [9, 0], [1, 1])).note == "kept"
        assert (len(other), other.submissions, memory.check().ok) == (2, 2, True)


def test_nobody_waits_twice_for_a_database_that_is_down(wire, wired, proposal, monkeypatch):
    monkeypatch.setattr(postgres_session, "WAIT_SECONDS", 0.2)
    with Memory.open(wired) as memory:
        wire.down, wire.lose = True, "commit"
        with pytest.raises(UnavailableError):
            memory.admit(proposal(1, 1, [9, 0], [1, 1]))
        monkeypatch.setattr(postgres_session, "WAIT_SECONDS", 60.0)
        started = time.monotonic()
        for _ in range(20):
            with pytest.raises(UnavailableError, match="the database is down; ask again later"):
                memory.lookup([9.0, 0.0])
        memory._ledger.store._session._down_until -= postgres_session.DOWN_SECONDS
        with pytest.raises(UnavailableError):  # this one has looked, once
            memory.lookup([9.0, 0.0])
        assert time.monotonic() - started < 5
        memory._ledger.store._session._down_until -= postgres_session.DOWN_SECONDS
        wire.down = False
        assert memory.lookup([9.0, 0.0]) is None


def test_emptied_by_another_meanwhile_is_unknown(postgres_url, wire, wired, proposal):
    with Memory.open(wired) as memory, Memory.open(postgres_url) as other:
        wire.meanwhile, wire.lose = other.reset, "answer"
        with pytest.raises(UnknownOutcomeError, match="emptied"):
            memory.admit(proposal(1, 1, [9, 0], [1, 1]))
        assert memory.lookup([9.0, 0.0]) is None


def end_all(postgres):
    with postgres.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'anisocert'")


def test_a_lost_connection_is_made_anew(postgres, postgres_url, proposal):
    with Memory.open(postgres_url) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        end_all(postgres)
        assert memory.lookup([0.5, 0.0]).prediction == 0
        end_all(postgres)
        assert memory.admit(proposal(1, 1, [9, 0], [1, 1])).note == "kept"

        def ended_within(write):
            with memory._ledger.transaction(write):
                end_all(postgres)
                memory._ledger.find("entries", "id", 0)

        for write in (True, False):
            with pytest.raises(UnavailableError, match="nothing was stored"):
                ended_within(write)
        assert memory.check().entries == 2


def test_a_restarted_database_is_waited_for(postgres, postgres_url, proposal):
    with Memory.open(postgres_url) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        postgres.stop()
        later = threading.Timer(0.3, postgres.start)
        later.start()
        assert memory.admit(proposal(1, 1, [1.5, 0], [1, 1])).note == "shrunk"
        later.join()
        assert memory.check().ok


def test_an_interrupted_step_leaves_a_connection_that_works(postgres_url, proposal):
    with Memory.open(postgres_url) as memory:

        def interrupted(by):
            with memory._ledger.transaction(True):
                memory._ledger.append("submissions", [(b"votes", b"x", 0.5, None)])
                raise by

        for by in (KeyboardInterrupt, GeneratorExit, RuntimeError):
            with pytest.raises(by):
                interrupted(by)
        assert (memory.submissions, memory.check().ok) == (0, True)
        assert memory.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"


def test_says_when_it_is_locked(postgres_url, proposal):
    with Memory.open(postgres_url) as memory, Memory.open(postgres_url) as other:
        memory._ledger.store._session.execute("SET lock_timeout = '50ms'")
        with other._ledger.transaction(write=True):
            with pytest.raises(UnavailableError, match="another process has kept it locked"):
                memory.admit(proposal(0, 0, [0, 0], [1, 1]))
            assert memory.lookup([0.0, 0.0]) is None  # reading does not wait
        assert memory.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"


def test_a_silent_writer_loses_the_lock_and_stores_nothing(postgres_url, proposal, monkeypatch):
    monkeypatch.setattr(postgres_session, "_SILENCE", "SET LOCAL idle_in_transaction_session_timeout = '50ms'")
    with Memory.open(postgres_url) as memory, Memory.open(postgres_url) as other:

        def silent():
            with memory._ledger.transaction(write=True):
                memory._ledger.append("submissions", [(b"votes", b"x", 0.5, None)])
                time.sleep(0.1)
                assert other.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"

        with pytest.raises(UnavailableError, match="nothing was stored"):
            silent()
        assert ([c.id for c in memory.entries()], memory.submissions, memory.check().ok) == ([0], 1, True)


@pytest.mark.skipif(sys.platform != "linux", reason="needs addresses of this machine beyond 127.0.0.1")
def test_a_writer_that_takes_no_rows_loses_the_lock(postgres, postgres_url, proposal, monkeypatch):
    """As of a machine that is suspended while the server sends; over TCP, as Unix sockets have no such limit."""
    address = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.1"  # which no other server of these tests has
    with postgres.connect() as admin:
        admin.execute(f"ALTER SYSTEM SET listen_addresses = '{address}'")
    postgres.restart()
    quick = postgres_session._SETTINGS.replace("tcp_user_timeout = '45s'", "tcp_user_timeout = '100ms'")
    monkeypatch.setattr(postgres_session, "_SETTINGS", quick)
    by_network = postgres_url.replace(f"host={postgres.folder}", f"host={address}&sslmode=disable")
    with Memory.open(by_network) as memory, Memory.open(postgres_url) as other:
        other._ledger.store._session.execute("SET lock_timeout = '10s'")

        def stopped():
            with memory._ledger.transaction(write=True):
                memory._ledger.append("submissions", [(b"votes", b"x", 0.5, None)])
                memory._ledger.store._session._connection.pgconn.send_query(b"SELECT repeat('x', 20000000)")
                assert other.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"

        with pytest.raises(UnavailableError, match="nothing was stored"):
            stopped()
        assert ([c.id for c in memory.entries()], memory.submissions, memory.check().ok) == ([0], 1, True)


@pytest.fixture
def standby(postgres):
    """standby("name"): commits wait for one that does not come; standby(""): they no longer do."""
    with postgres.connect() as admin:

        def must_have(name):
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            admin.execute("SELECT pg_reload_conf()")
            time.sleep(0.5)  # until everybody has heard

        yield must_have
        must_have("")


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_what_a_standby_must_have_is_acknowledged_when_it_has_it(postgres, postgres_url, standby, proposal, how):
    """A wait that is cut short has committed here, and perhaps nowhere else."""
    told = []
    with Memory.open(postgres_url) as memory, postgres.connect() as admin:

        def admit():
            try:
                told.append(memory.admit(proposal(0, 0, [0, 0], [1, 1])).note)
            except UnavailableError as error:
                told.append(error)

        standby("absent")
        thread = threading.Thread(target=admit)
        thread.start()
        cut_short = f"SELECT {how}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while thread.is_alive() and not admin.execute(cut_short).fetchall():
            time.sleep(0.01)
        time.sleep(0.3)  # it looks, finds it, and waits once more
        assert told == []
        standby("")
        thread.join()
        assert (told, len(memory), memory.submissions) == (["kept"], 1, 1)
