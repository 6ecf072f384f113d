"""The schema: what is in it, what is refused, whose errors are told, and that no password is."""

import threading
import traceback
from dataclasses import fields

import numpy as np
import pytest

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory import BrokenMemoryError, Memory, UnavailableError
from anisocert.memory.postgres import _schema as postgres_schema

SECRETS = ("sec:ret", "sec%3Aret", "word?", "word%3F")


@pytest.fixture
def name(postgres_url):
    return postgres_url.rpartition("memory=")[2]


@pytest.fixture
def admin(postgres):
    with postgres.connect() as connection:
        yield connection


@pytest.mark.parametrize("norm", [1, 2])
def test_answers_are_those_of_a_memory_of_this_process(postgres_url, scene, norm):
    proposals = scene(np.random.default_rng(norm), 5, norm, 40)
    with Memory.open(postgres_url) as memory, Memory() as other:
        for proposed in proposals:
            mine, its = memory.admit(proposed), other.admit(proposed)
            assert (mine.prediction, mine.note, mine.region) == (its.prediction, its.note, its.region)
        with Memory.open(postgres_url, read_only=True) as reader:
            for ours, theirs in zip(reader.entries(), other.entries(), strict=True):
                assert np.array_equal(ours.theta, theirs.theta)
                for field in fields(ours):
                    if field.name not in ("theta", "x"):
                        assert getattr(ours, field.name) == getattr(theirs, field.name), field.name
            assert reader.check().ok
            assert reader.stats().file_bytes > 0


def test_more_than_a_page_is_read(postgres_url, proposal):
    with Memory.open(postgres_url) as memory, Memory.open(postgres_url) as other:
        memory.admit_all([proposal(i, i % 3, [3.0 * i, 0], [1, 1]) for i in range(130)])
        assert other.lookup([3.0 * 129, 0.5]).prediction == 0
        assert [c.id for c in other.entries()] == list(range(130))
        assert [len(region.center) for region in other._ledger.exact(np.arange(130)[::-1])] == [2] * 130
        memory.admit(proposal(130, 0, [0, 99], [1, 1]))
        assert (len(other), other.check().entries) == (131, 131)


def test_one_database_holds_several(postgres, postgres_url, proposal):
    with Memory.open(postgres_url) as one, Memory.open(f"{postgres_url}_b", "abstain") as other:
        one.admit(proposal(0, 0, [0, 0], [1, 1]))
        assert other.lookup([0.0, 0.0]) is None
        assert other.admit(proposal(0, 1, [0, 0, 0], [1, 1, 1], model_hash="other")).note == "kept"
        assert (one.policy, other.policy, one.check().ok, other.check().ok) == ("inherit", "abstain", True, True)
    assert not Memory.exists(postgres.url())  # the schema `anisocert`
    with Memory.open(postgres.url()) as memory:
        assert Memory.exists(postgres.url())
        memory.reset()


INTRUSIONS = {
    "trigger": "CREATE FUNCTION {m}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
    "CREATE TRIGGER t BEFORE INSERT ON {m}.entries FOR EACH ROW EXECUTE FUNCTION {m}.f()",
    "rule": "CREATE RULE r AS ON INSERT TO {m}.submissions DO INSTEAD NOTHING",
    "policy": "CREATE POLICY p ON {m}.entries USING (false)",
    "relation entries": "ALTER TABLE {m}.entries ENABLE ROW LEVEL SECURITY",
    "relation numbers": "ALTER TABLE {m}.numbers SET UNLOGGED",
    "relation songs": "CREATE TABLE {m}.songs (name text)",
    "relation seen": "CREATE VIEW {m}.seen AS SELECT * FROM {m}.entries",
    "relation submissions": "ALTER TABLE {m}.submissions RENAME TO kept; "
    "CREATE VIEW {m}.submissions AS SELECT * FROM {m}.kept",
    "relation far": "CREATE FOREIGN DATA WRAPPER {m}_w; CREATE SERVER {m}_s FOREIGN DATA WRAPPER {m}_w; "
    "CREATE FOREIGN TABLE {m}.far (x int) SERVER {m}_s",
    "inheritance": "CREATE TABLE {m}_child () INHERITS ({m}.entries)",
    "column head.alphas": "ALTER TABLE {m}.head ALTER COLUMN alphas SET DEFAULT 0",
    "column entries.more": "ALTER TABLE {m}.entries ADD COLUMN more text",
    "column entries.votes": "ALTER TABLE {m}.entries ALTER COLUMN votes DROP NOT NULL",
    "column entries.theta": "CREATE DOMAIN {m}_d AS bytea; ALTER TABLE {m}.entries ALTER COLUMN theta TYPE {m}_d",
    "constraint entries_id_key": "ALTER TABLE {m}.entries DROP CONSTRAINT entries_id_key",
    "column numbers.label": "ALTER TABLE {m}.numbers RENAME COLUMN name TO label",
    "constraint c": "ALTER TABLE {m}.entries ADD CONSTRAINT c CHECK (id < 7)",
    "index named": "DROP INDEX {m}.named",
    "index drawn": "DROP INDEX {m}.drawn; CREATE INDEX drawn ON {m}.numbers (noise) WHERE number > 1",
    "index more": "CREATE INDEX more ON {m}.entries (length(note))",
    "trigger RI": "CREATE TABLE {m}_r (n bigint REFERENCES {m}.entries)",
    "format another": "COMMENT ON TABLE {m}.head IS 'another'",
}  # fmt: skip


@pytest.mark.parametrize("what", INTRUSIONS)
def test_what_is_not_exactly_a_memory_is_refused(postgres_url, name, admin, proposal, what):
    """By whoever has it open, at the next step, and by whoever opens it."""
    with Memory.open(postgres_url) as memory:
        admin.execute(INTRUSIONS[what].format(m=name))
        for step in (lambda: memory.admit(proposal(0, 0, [0, 0], [1, 1])), lambda: memory.lookup([0.0, 0.0])):
            with pytest.raises(BrokenMemoryError, match=rf"nothing else, got others: .*{what}"):
                step()
        for read_only in (False, True):
            with pytest.raises(AnisocertError, match=r"broken|of others"):
                Memory.open(postgres_url, read_only=read_only)
    if "relation submissions" not in what:
        assert admin.execute(f"SELECT count(*) FROM {name}.submissions").fetchone() == (0,)


@pytest.mark.parametrize("write", [False, True])
def test_no_table_changes_during_a_step(postgres_url, name, admin, write):
    import psycopg

    admin.execute("SET lock_timeout = '50ms'")
    with Memory.open(postgres_url) as memory:
        # A child table is no danger to a step under way: none reads it.
        changes = ["ALTER TABLE {m}.entries ENABLE ROW LEVEL SECURITY", "DROP TABLE {m}.numbers"]
        changes += [INTRUSIONS["trigger"], INTRUSIONS["rule"]] if write else [INTRUSIONS["rule"]]
        with memory._ledger.transaction(write):
            for change in changes:
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    admin.execute(change.format(m=name))
        admin.execute(f"DROP FUNCTION IF EXISTS {name}.f")
        assert memory.check().ok


def test_a_writer_without_the_lock_is_noticed(postgres_url, name, admin):
    with Memory.open(postgres_url) as memory:

        def disturbed():
            with memory._ledger.transaction(True):
                admin.execute(f"UPDATE {name}.head SET seal = '\\x00'")
                memory._ledger.append("numbers", [], lifetime=0.5)

        with pytest.raises(BrokenMemoryError, match="does not hold its lock"):
            disturbed()
        with pytest.raises(BrokenMemoryError, match="its head is not what was written"):
            memory.lookup([0.0])


def test_changed_rows_are_noticed(postgres_url, name, admin, proposal):
    with Memory.open(postgres_url) as memory:
        memory.admit_all([proposal(i, 0, [9.0 * i, 0], [1, 2]) for i in range(3)])
    saved = admin.execute(f"SELECT axes FROM {name}.entries WHERE number = 2").fetchone()
    for change, match in (
        (f"UPDATE {name}.entries SET axes = '\\x00' WHERE number = 2", "row 2 of its entries is not what was written"),
        (f"DELETE FROM {name}.entries WHERE number = 3", "must hold 3 entries"),
        (f"UPDATE {name}.head SET entries = 2", "its head is not"),
        (f"DELETE FROM {name}.head", "its head is not"),
    ):
        admin.execute(change)
        with pytest.raises(BrokenMemoryError, match=match):
            Memory.open(postgres_url)
        admin.execute(f"UPDATE {name}.entries SET axes = %s WHERE number = 2", saved)


def test_reading_makes_nothing(postgres_url, name, admin, proposal):
    assert not Memory.exists(postgres_url)
    with pytest.raises(ArgumentError, match="which does not exist"):
        Memory.open(postgres_url, read_only=True)
    assert admin.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is None
    Memory.open(postgres_url).close()
    with Memory.open(postgres_url, read_only=True) as memory:
        for step in (
            lambda: memory.admit(proposal(0, 0, [0.0], [1.0])),
            memory.reset,
            lambda: memory.reserve([0], 0, [[0.0]]),
        ):
            with pytest.raises(ArgumentError, match="opened for writing"):
                step()


def test_a_schema_of_others_is_left_alone(postgres_url, name, admin):
    admin.execute(f"CREATE SCHEMA {name}; CREATE TABLE {name}.songs (x text)")
    for read_only in (False, True):
        with pytest.raises(ArgumentError, match="got a schema of others"):
            Memory.open(postgres_url, read_only=read_only)
    admin.execute(f"DROP TABLE {name}.songs")
    Memory.open(postgres_url).close()  # an empty one may have been made for this
    admin.execute(f"COMMENT ON TABLE {name}.head IS '{postgres_schema.FORMAT[:-1]}3'")
    with pytest.raises(ArgumentError, match=r"format 2, got .*, an anisocert memory, format 3"):
        Memory.open(postgres_url)


def test_others_may_not_read_until_they_are_told(postgres, postgres_url, name, admin, proposal):
    import psycopg

    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'sec:ret@word?'")
    admin.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
    with Memory.open(postgres_url) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    admin.execute("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC")
    reader = postgres.url(name, user=name)
    with pytest.raises(AnisocertError, match="permission denied"):
        Memory.open(reader, read_only=True)
    admin.execute(f"GRANT USAGE ON SCHEMA {name} TO {name}")
    with pytest.raises(AnisocertError, match="permission denied"):
        Memory.open(reader, read_only=True)
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {name}")
    with Memory.open(reader, read_only=True) as memory:
        assert (memory.lookup([0.0, 0.0]).prediction, memory.check().ok) == (0, True)
    with Memory.open(postgres_url) as memory, postgres.connect(user=name) as other:
        with memory._ledger.transaction(write=True):
            held = admin.execute("SELECT DISTINCT mode FROM pg_locks WHERE relation = %s::regclass", (f"{name}.head",))
            assert ("ShareUpdateExclusiveLock",) in held.fetchall()
            assert admin.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall() == []  # open to all
        for mode in ("SHARE UPDATE EXCLUSIVE", "ROW SHARE"):  # nobody who may only look up keeps others from writing
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(f"BEGIN; LOCK TABLE {name}.head IN {mode} MODE")
            other.rollback()
    admin.execute(f"GRANT INSERT ON ALL TABLES IN SCHEMA {name} TO {name}; GRANT UPDATE ON {name}.head TO {name}")
    with Memory.open(reader) as memory:  # as a replica may run: it can add, and not remove
        assert memory.admit(proposal(1, 1, [1.5, 0], [1, 1])).note == "shrunk"
        with pytest.raises(AnisocertError, match="permission denied"):
            memory.reset()
        assert memory.check().entries == 2


def test_acknowledged_is_durable_whatever_the_server_usually_does(postgres_url, admin, proposal):
    admin.execute("ALTER ROLE keeper SET synchronous_commit = off")
    try:
        with Memory.open(postgres_url) as memory:
            memory.admit(proposal(0, 0, [0, 0], [1, 1]))
            session = memory._ledger.store._session
            assert session.execute("SHOW synchronous_commit").fetchone() == ("on",)
            session.execute("SET synchronous_commit = local")
            with pytest.raises(ArgumentError, match="synchronous_commit local"):
                memory.admit(proposal(1, 0, [0, 0], [1, 1]))
            session.execute("SET synchronous_commit = on")
            admin.execute("ALTER SYSTEM SET fsync = off")
            admin.execute("SELECT pg_reload_conf()")
            while admin.execute("SHOW fsync").fetchone() != ("off",):
                pass
            session.execute("SELECT pg_sleep(0.05)")
            with pytest.raises(ArgumentError, match="expected a server with fsync"):
                memory.admit(proposal(1, 0, [0, 0], [1, 1]))
            assert (len(memory), memory.check().ok) == (1, True)
    finally:
        admin.execute("ALTER ROLE keeper RESET synchronous_commit")
        admin.execute("ALTER SYSTEM RESET fsync")
        admin.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:sec:ret@word?@host:port/db",
        "postgresql://me:sec%3Aret%@host/db",
        "postgresql://me:sec%3Aret@host/db?memory=Big",
        "postgresql://me:sec%3Aret@host/db?memory=a&memory=b",
        "postgresql://me:sec%3Aret@host/db?memory=pg_toast",
        "postgresql://me:sec%3Aret@host/db?memory=a%22b",
        "postgresql://me:sec%3Aret@host/db?memory=",
        "postgresql://me:sec%3Aret@host/db?nonsense=1",
        "postgresql://host/db?pass%77ord=sec%3Aret&nonsense=1",
    ],
)
def test_a_url_that_cannot_be_is_refused_without_its_password(postgres, url):
    for call in (Memory.open, Memory.exists):
        with pytest.raises(ArgumentError, match="postgresql://USER@HOST/DATABASE") as raised:
            call(url)
        told = "".join(traceback.format_exception(raised.value))
        assert not [one for one in SECRETS if one in told]


def test_what_cannot_be_reached_is_told_without_its_password(postgres, postgres_url):
    wrong = postgres_url.replace("sec%3A", "sec%3Aret")
    nowhere = postgres_url.replace(str(postgres.folder), "/nowhere")
    for url, what in ((wrong, "password authentication failed"), (nowhere, "nowhere.* failed|No such file")):
        for call in (Memory.open, Memory.exists):
            with pytest.raises(UnavailableError, match=what) as raised:
                call(url)
            told = "".join(traceback.format_exception(raised.value, chain=True))
            assert not [one for one in SECRETS if one in told]
    with Memory.open(postgres_url) as memory:
        assert memory.place == postgres_url.replace(":sec%3Aret%40word%3F", "")
        assert not [one for one in SECRETS if one in repr(memory) + repr(memory._ledger.store._session._place)]


def test_text_that_postgresql_cannot_hold_is_refused_and_nothing_is_stored(postgres_url, proposal):
    with Memory.open(postgres_url) as memory:
        for model_hash in ("a\0b", "\ud800"):
            with pytest.raises(ArgumentError, match="expected values that PostgreSQL can hold"):
                memory.admit(proposal(0, 0, [0, 0], [1, 1], model_hash=model_hash))
        assert (len(memory), memory.submissions, memory.lookup([0.0, 0.0])) == (0, 0, None)
        assert memory.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"


def test_reset_drops_the_raw_inputs(postgres, postgres_url, proposal):
    inputs = np.random.default_rng(0).standard_normal((20, 500)).astype(np.float32)

    def on_disk():
        files = [path for path in (postgres.folder / "data" / "base").rglob("*") if path.is_file()]
        return any(x.tobytes()[:64] in file.read_bytes() for file in files for x in inputs[:3])

    with Memory.open(postgres_url) as memory, postgres.connect() as admin:
        for i, x in enumerate(inputs):
            memory.admit(proposal(i, 0, x, 1.0))
        admin.execute("CHECKPOINT")
        assert on_disk()
        memory.reset()
        admin.execute("CHECKPOINT")
        assert not on_disk()
        assert memory.admit(proposal(0, 0, [1.0], [1.0], model_hash="next")).note == "kept"


def test_without_psycopg_the_extra_is_named():
    import subprocess
    import sys

    code = """
import sys
sys.modules["psycopg"] = None
from anisocert.memory import Memory
from anisocert.errors import MissingExtraError
try:
    Memory.open("postgresql://host/db")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "a memory in PostgreSQL needs psycopg: pip install 'anisocert[postgres]'\n", done.stderr


@pytest.mark.parametrize(
    "change",
    ["DROP TABLE {m}.entries", "DROP SCHEMA {m} CASCADE", "ALTER TABLE {m}.head RENAME COLUMN seal TO stamp",
     "ALTER TABLE {m}.entries ALTER COLUMN axes TYPE text USING encode(axes, 'hex')"],
)  # fmt: skip
def test_tables_that_go_while_it_is_open_are_missed(postgres_url, name, admin, proposal, change):
    with Memory.open(postgres_url) as memory:
        memory.admit_all([proposal(i, 0, [9.0 * i, 0], [1, 2]) for i in range(3)])
        for _ in range(8):  # until the server keeps plans of what is asked often
            memory.lookup([0.0, 0.0])
        admin.execute(change.format(m=name))
        for step in (lambda: memory.lookup([0.0, 0.0]), lambda: memory.admit(proposal(9, 0, [0, 99], [1, 1]))):
            with pytest.raises(BrokenMemoryError):
                step()


def test_entries_that_go_while_it_is_open_are_missed(postgres_url, name, admin, proposal):
    with Memory.open(postgres_url) as memory:
        memory.admit_all([proposal(i, 0, [9.0 * i, 0], [1, 2]) for i in range(3)])
        admin.execute(f"DELETE FROM {name}.entries WHERE number = 1")
        with pytest.raises(BrokenMemoryError, match="are gone"):
            memory.lookup([0.0, 0.0])
        assert not memory.check().ok


def test_readers_see_all_of_a_memory_or_none(postgres_url, proposal):
    """Emptying a table shows at once, also to those who look at an earlier moment: they must not."""
    stop, wrong = threading.Event(), []

    def look():
        with Memory.open(postgres_url, read_only=True) as reader:
            while not stop.is_set():
                try:
                    with reader._ledger.transaction(write=False, anew=True):
                        pass
                except Exception as error:
                    wrong.append(error)
                    return

    with Memory.open(postgres_url) as memory:
        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(25):
            memory.admit_all([proposal(i, 0, [9.0 * i, 0], [1, 2]) for i in range(3)])
            memory.reset()
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
