"""The examples of the README run as they are printed."""

import re
import shutil
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_examples_run(trained_digits, tmp_path, monkeypatch, capsys):
    assert len(EXAMPLES) == 3
    assert "anisocert train --data digits --sigma 0.25 --out nets/digits" in README  # makes the file that they load
    (tmp_path / "nets" / "digits").mkdir(parents=True)
    shutil.copy(trained_digits, tmp_path / "nets" / "digits" / "last.safetensors")
    monkeypatch.chdir(tmp_path)
    names = {}
    for place, example in enumerate(EXAMPLES):
        exec(compile(example, f"README.md, example {place + 1}", "exec"), names)
    assert names["c"].region.contains(names["test"].x[0])
    assert names["answer"].prediction in range(10)
    assert names["answer"].note == "kept"
    assert (tmp_path / "memory.sqlite").exists()
    assert "not been through a memory" in (tmp_path / "report.html").read_text("utf-8")
    assert "“about one input's own classifier”" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", re.findall(r"\]\(((?!https?:)[^)#]+)", README))
def test_its_links_lead_somewhere(name):
    assert (Path(__file__).parents[2] / name).exists()
