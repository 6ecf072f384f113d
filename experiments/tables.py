"""The tables and pictures of the pages, from the committed rows of experiments/results; no GPU needed.

    python experiments/tables.py                                # all tables as Markdown
    python experiments/tables.py --write docs/reproduction.md   # between <!-- table NAME --> and <!-- end -->
    python experiments/tables.py --figures docs                 # docs/reproduction-*.png and attacked-first.png

A run is experiments/results/NETWORK/METHOD, as `anisocert reproduce experiments/cifar10.toml --results` leaves them;
runtime.json is from benchmarks/runtime.py, attacked-first.tsv from experiments/first.py, one-system from
experiments/codes.py; denoised, tiny-imagenet and imagenet are from the experiments of these names. What was not run is
left out.
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.evaluate import Cell, Comparison, Results, Table, against_paper, compare, render
from anisocert.evaluate.labels import algorithm
from anisocert.runs import StoredRun, read_run
from claims import claim_table
from first import FILE, Run, read_lines
from gains import duel_table, gain_table, largest_table, memory_gain_table
from levels import average_table, headline_table, level_table, many_table, sigma_table
from means import mean_table
from network_tables import FOLDERS, aims_table, network_tables
from network_tables import NAMES as NETWORK_NAMES
from one_network import expect_one_network
from one_system import one_system_table, read_systems
from plans import plan_table
from protection import attacked_figure, first_table, protection_table
from runtime import runtime_table
from small_pictures import make_small

RESULTS = Path(__file__).parent / "results"
STRONG, STEM = "strong", "ResNet18 with a 3x3 stem"  # networks of the matrix that are not the paper's
RECIPES = ("cohen", "smoothadv", "macer", "stability", STRONG)
PICTURES = {"cohen": "l2", "smoothadv": "smoothadv", "macer": "macer", "stability": "l1", STRONG: STRONG}
KINDS = ("headline", "many", "levels", "sigma", "paper", "average", "plans")
NAMES = (*(f"{recipe}-{kind}" for recipe in RECIPES for kind in KINDS), "claims", "superset", "average", "gains",
         "memory-gains", "duel", "means", "runtime", "protection", "attacked-first", "one-system", "denoised-aims",
         *FOLDERS)  # fmt: skip
MANY = "-many"  # ends the names of runs on more inputs, which are compared with each other alone
# kinds of tables that keep all intervals
WHOLE = ("headline", "many", "protection", "attacked-first", "one-system", *FOLDERS)
# "<!-- table NAME -->", or "<!-- table NAME at 0.5 -->" for the rows of one noise level
BLOCK = re.compile(r"<!-- table (\S+)(?: at (\S+))? -->\n.*?<!-- end -->", re.DOTALL)


def read_results(results: Path, many: bool = False) -> dict[str, Comparison]:
    """The runs of each recipe, all on the same inputs. many: the runs on more inputs instead."""
    comparisons = {}
    for recipe in RECIPES:
        folders = [file.parent for file in sorted(results.glob(f"{recipe}-*/*/run.json"))]
        runs = [_read(folder, recipe) for folder in folders if folder.name.endswith(MANY) == many]
        if runs:
            (comparison,) = compare(runs)
            if comparison.left_out:  # what a memory answers depends on all that it has seen
                raise ArgumentError(
                    f"expected the same inputs in all runs of {recipe}, got {comparison.left_out} that not all have: "
                    "finish the runs, or take away those on other inputs"
                )
            comparisons[recipe] = comparison
    return comparisons


def _read(folder: Path, recipe: str) -> StoredRun:
    """A run; of a network that is not the paper's, not by the name of its recipe."""
    run = read_run(folder)
    return replace(run, description={**run.description, "recipe": STEM}) if recipe == STRONG else run


def all_tables(results: Path) -> dict[str, list[Table]]:
    """Every table that the results fill, by the name the page calls it; an error if networks are mixed in one."""
    lines = read_lines(results / FILE)
    expect_one_network(results, lines)
    recipes, more = read_results(results), read_results(results, many=True)
    comparisons, by_name = list(recipes.values()), dict[str, list[Table | None]]()
    for recipe, comparison in recipes.items():
        by_name[f"{recipe}-levels"] = [level_table(comparison)]
        by_name[f"{recipe}-headline"] = [headline_table(comparison)]
        by_name[f"{recipe}-many"] = [many_table(more[recipe])] if recipe in more else []
        by_name[f"{recipe}-sigma"] = [sigma_table(comparison)]
        by_name[f"{recipe}-plans"] = [plan_table(comparison)]
        by_name[f"{recipe}-paper"] = [against_paper(comparison)]
        # the paper has its average theta at one noise level
        by_name[f"{recipe}-average"] = [against_paper(comparison, sigma) for sigma in comparison.sigmas]
    by_name |= {
        "claims": [claim_table(comparisons)],
        "superset": [largest_table(comparisons)],
        "average": [average_table(comparisons)],
        "gains": [gain_table(comparisons)],
        "memory-gains": [memory_gain_table(comparisons)],
        "duel": [duel_table(comparisons)],
        "means": [mean_table(comparisons)],
    }
    by_name["attacked-first"] = [first_table(lines)]
    by_name["protection"] = [protection_table([line for line in lines if line.recipe == "cohen"])]
    by_name["one-system"] = [one_system_table(read_systems(results))]
    by_name["denoised-aims"] = [aims_table(results)]
    for folder in FOLDERS:
        own_lines = read_lines(results / folder / FILE)
        expect_one_network(results / folder, own_lines)
        named = [replace(line, recipe=NETWORK_NAMES.get(line.recipe, line.recipe)) for line in own_lines]
        by_name[folder] = [*network_tables(results, folder), first_table(named, folder)]
    if (results / "runtime.json").exists():
        by_name["runtime"] = [runtime_table(json.loads((results / "runtime.json").read_text()))]
    kept = {name: [_shown(name, table) for table in tables if table is not None] for name, tables in by_name.items()}
    return {name: kept[name] for name in NAMES if kept.get(name)}


def _shown(name: str, table: Table) -> Table:
    """Narrow enough for a page: of a table with many numbers, the intervals of its first medians alone."""
    if name.endswith(WHOLE):
        return table
    keep = [column.name.startswith("median") and not column.group for column in table.columns]
    return replace(table, rows=tuple(_bare(row, keep) for row in table.rows))


def _bare(row: Sequence[Cell], keep: Sequence[bool]) -> tuple[Cell, ...]:
    return tuple(cell if whole else replace(cell, low=None, high=None) for cell, whole in zip(row, keep, strict=True))


def written(page: str, tables: dict[str, list[Table]]) -> str:
    """The page with its tables drawn anew; empty where there is nothing to draw."""
    if unknown := [name for name, _ in BLOCK.findall(page) if name not in NAMES]:
        raise ArgumentError(f"expected tables of {', '.join(NAMES)}, got {unknown[0]!r}")

    def block(match: re.Match[str]) -> str:
        drawn = "\n".join(render(_at(match[2], table), "markdown") for table in tables.get(match[1], []))
        return match[0].partition("\n")[0] + f"\n{drawn}<!-- end -->"

    return BLOCK.sub(block, page)


def _at(level: str | None, table: Table) -> Table:
    """The rows of one noise level, by their first cell; all if none is named."""
    if level is None:
        return table
    rows = tuple(row for row in table.rows if row[0].value == level)
    if not rows:
        raise ArgumentError(f"expected a noise level of the table {table.title!r}, got {level!r}")
    return replace(table, rows=rows)


def write_figures(results: Path, folder: Path) -> list[Path]:
    """Certified accuracy: one picture per recipe, one column per noise level; the memory is the default one.

    And what a stranger who comes first leaves of it, where that was measured.
    """
    from anisocert.report.canvas import save, styled
    from anisocert.report.figures import accuracy

    lines = read_lines(results / FILE)
    expect_one_network(results, lines)
    methods, pictures, runs = ("fixed", "isotropic", "published", "ours"), list[Path](), dict[Run, Results]()
    for recipe, name in PICTURES.items():
        files = [file for method in methods for file in sorted(results.glob(f"{recipe}-*/{method}/run.json"))]
        for comparison in compare([_read(file.parent, recipe) for file in files]) if files else ():
            for entry in comparison.entries:
                binding = entry.binding
                runs[comparison.data, recipe, binding.norm, binding.sigma or 0.0, algorithm(entry.run)] = binding
            with styled():
                pictures += save(accuracy(comparison, together=False), folder / f"reproduction-{name}", ("png",))
    if lines:
        systems = read_systems(results)
        certified = [] if systems is None else [entry.before for entry in systems.entries]
        with styled():
            pictures += save(attacked_figure(lines, runs, certified), folder / "attacked-first", ("png",))
    make_small(pictures)
    return pictures


def main() -> None:
    """Print, write or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the runs")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page whose tables are drawn anew")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="where the pictures go")
    args = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever this machine's language is: the pages are
    if args.figures:
        print(*write_figures(args.results, args.figures), sep="\n")
    if args.write:
        args.write.write_text(written(args.write.read_text("utf-8"), all_tables(args.results)), "utf-8")
    if not args.figures and not args.write:
        for name, tables in all_tables(args.results).items():
            print(
                f"<!-- table {name} -->", *(render(table, "markdown") for table in tables), "<!-- end -->\n", sep="\n"
            )


if __name__ == "__main__":
    main()
