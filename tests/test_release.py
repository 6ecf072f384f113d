"""What is said about a release is said once, or the same everywhere."""

import re
from pathlib import Path

import pytest

import anisocert

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_same_everywhere():
    version = anisocert.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[0] == version


def named(page):
    """Files that a page names: by their path in the repository, or from src/anisocert on."""
    text = (ROOT / page).read_text("utf-8")
    return sorted(set(re.findall(r"`([a-z_/]+\.(?:py|toml|ipynb))`", text)) | set(re.findall(r"\]\(([^)#:]+)\)", text)))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_pages_name_files_that_there_are(page):
    assert named(page)
    places = (ROOT, ROOT / "src" / "anisocert")
    assert [name for name in named(page) if not any((place / name).exists() for place in places)] == []
