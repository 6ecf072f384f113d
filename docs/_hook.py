"""What mkdocs is told beyond docs/: the repository's own pages, the tour, and a page of reference for each room."""

import ast
import base64
import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "anisocert"
PAGES = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
}  # fmt: skip
TOUR = "tour.ipynb"
STYLE = "default"


def on_config(config: MkDocsConfig) -> None:
    """Add the reference to the navigation: a new room has its page without being named anywhere."""
    pages = [{"anisocert": "reference/index.md"}, *({room: f"reference/{room}.md"} for room in rooms())]
    assert config.nav is not None
    config.nav.append({"Reference": pages})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what is made here."""
    made: dict[str, str | bytes] = {page: (ROOT / name).read_text("utf-8") for name, page in PAGES.items()}
    made["reference/index.md"] = reference("anisocert")
    made |= {f"reference/{room}.md": reference(f"anisocert.{room}") for room in rooms()}
    made |= tour(json.loads((ROOT / "docs" / TOUR).read_text("utf-8")))
    made["pygments.css"] = HtmlFormatter(style=STYLE).get_style_defs(".highlight")
    if (notebook := files.get_file_from_path(TOUR)) is not None:
        files.remove(notebook)
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links between the repository's own pages and those of docs/, as they are on the site."""
    for name, page in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}").replace(f"]({name}", f"]({page}")
    markdown = re.sub(r"\]\(docs/", "](", markdown).replace(f"]({TOUR}", "](tour.md")
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)  # the rest of the repository is not on the site


def rooms() -> list[str]:
    """The packages that say which of their names are public, and the errors."""
    packages = [path.parent for path in SOURCE.glob("*/__init__.py")]
    return sorted(["errors", *(package.name for package in packages if public(package / "__init__.py"))])


def public(file: Path) -> bool:
    """Whether a module has `__all__`."""
    body = ast.parse(file.read_text("utf-8")).body
    names = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    return any(isinstance(name, ast.Name) and name.id == "__all__" for name in names)


def reference(name: str) -> str:
    """The page of a room, or of the package."""
    if name != "anisocert":
        return f"# `{name}`\n\n::: {name}\n"
    text = "# `import anisocert as ac`\n\n::: anisocert\n"
    for one in ("evaluate", "report"):  # which are rooms too, and have their pages as such
        text += f"\n::: anisocert.{one}.{one}\n    options: {{show_root_heading: true, show_root_toc_entry: true}}\n"
    return text


def tour(notebook: dict) -> dict[str, str | bytes]:
    """The notebook as a page, with the pictures beside it."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"tour-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![]({name})")
            elif "text/markdown" in data:
                parts.append("".join(data["text/markdown"]))
            else:
                parts.append(f"```text\n{''.join(data['text/plain'])}\n```")
    return {"tour.md": "\n\n".join(parts)} | pictures
