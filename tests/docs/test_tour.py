"""The notebook runs as it is, and what is committed with it is what it shows."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient: pip install '.[dev]'")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install '.[dev]'")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install '.[dev]'")

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


@pytest.fixture(scope="module")
def committed():
    return nbformat.read(TOUR, as_version=4)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tour")
    notebook = nbformat.read(TOUR, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            patch.setenv(name, str(folder / "jupyter"))
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook, folder


def kinds(notebook):
    """Of every code cell, what it shows."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[(one.output_type, *sorted(one.get("data", ()))) for one in cell.outputs] for cell in cells]


def text(notebook):
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    return "\n".join(one.get("text", "") + "".join(one.get("data", {}).get("text/plain", "")) for one in outputs)


def test_it_runs_and_writes_the_report(executed, committed):
    notebook, folder = executed
    assert kinds(notebook) == kinds(committed)
    assert sum("image/png" in kind for cell in kinds(notebook) for kind in cell) == 3
    report = (folder / "report.html").read_text("utf-8")
    assert "promised from admission on" in report
    assert "\nkept inherited inherited\nTrue\n" in text(notebook)


@pytest.mark.parametrize("which", ["executed", "committed"])
def test_nothing_of_the_machine_or_its_warnings_is_shown(which, request):
    found = request.getfixturevalue(which)
    notebook = found[0] if which == "executed" else found
    assert not re.search(r"(^|[\s'\"(])/\w|[A-Z]:\\|[Ww]arning", text(notebook))
    assert all(one.get("name") != "stderr" for cell in notebook.cells for one in cell.get("outputs", ()))
