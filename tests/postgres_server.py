"""A real PostgreSQL of our own, in a folder: `postgres_server.py FOLDER` starts one and prints a memory's URL."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

USER, PASSWORD = "keeper", "sec:ret@word?"
QUOTED = "sec%3Aret%40word%3F"


def binaries():
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [path for path in (*reversed(places), Path(shutil.which("initdb") or "/").parent)
             if (path / "initdb").exists() and (path / "pg_ctl").exists()]  # fmt: skip
    return found[0] if found else None


class Server:
    """Reached by a socket in its folder, so that it needs no port. folder: one that may hold a server already."""

    def __init__(self, folder=None):
        # Not pytest's folder, which others may not enter; in memory where that is possible: no disk to wait for.
        usual = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
        self.folder = Path(folder or tempfile.mkdtemp(prefix="anisocert-pg-", dir=usual))
        self._bin, self._data = binaries(), self.folder / "data"
        # PostgreSQL refuses to be root.
        self._who = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if not self._data.exists():
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o755)
            secret = self.folder / "password"
            secret.write_text(PASSWORD)
            if self._who:
                shutil.chown(self.folder, self._who["user"], self._who["group"])
            self._run("initdb", "-D", self._data, "-U", USER, "--pwfile", secret, "-A", "scram-sha-256", "-E", "UTF8",
                      "--locale=C", "--no-sync", "--no-instructions")  # fmt: skip
            with (self._data / "postgresql.conf").open("a") as file:
                file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nmax_connections = 60\n")
        self._own = not self._runs()
        if self._own:
            self._control("start")

    def _runs(self):
        command = [self._bin / "pg_ctl", "-D", self._data, "status"]
        return subprocess.run(command, capture_output=True, check=False, **self._who).returncode == 0

    def _run(self, name, *arguments):
        # Into a file: the server keeps what it inherits open for as long as it runs.
        with (self.folder / "said").open("wb") as said:
            done = subprocess.run(
                [self._bin / name, *arguments], cwd=self.folder, stdout=said, stderr=said, check=False,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **self._who,
            )  # fmt: skip
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError((self.folder / "said").read_text() + (log.read_text()[-2000:] if log.exists() else ""))

    def _control(self, *arguments):
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "-t", "120", *arguments)

    def url(self, memory=None, password=True, database="postgres", user=USER):
        """Of a memory in it."""
        who = f"{user}:{QUOTED}" if password else user
        return f"postgresql://{who}@/{database}?host={self.folder}" + (f"&memory={memory}" if memory else "")

    def connect(self, **settings):
        """A connection past the memory, as its administrator."""
        import psycopg

        known = {"host": str(self.folder), "user": USER, "password": PASSWORD, "dbname": "postgres", "autocommit": True}
        return psycopg.connect(**known | settings)

    def tool(self, name, *arguments):
        """Run pg_dump or its like."""
        where = ["-h", str(self.folder), "-U", USER]
        environment = os.environ | {"PGPASSWORD": PASSWORD}
        subprocess.run([self._bin / name, *where, *arguments], env=environment, check=True, capture_output=True)

    def restart(self):
        """Without a word to anybody, as if the machine had lost its power, but for what disks do."""
        self._control("restart", "-m", "immediate")

    def stop(self, mode="immediate"):
        self._control("stop", "-m", mode)

    def start(self):
        self._control("start")

    def remove(self):
        """End it, unless it ran before, and somebody else will."""
        if self._own:
            self.stop()
            shutil.rmtree(self.folder)


if __name__ == "__main__":
    print(Server(sys.argv[1]).url("anisocert"))
