"""The commands, assembled. Each command imports what it needs when it runs, so that `--help` is quick."""

from typing import Annotated

import typer

from anisocert import __version__
from anisocert.cli import (
    attack,
    certify,
    codebook,
    data,
    demo,
    diagnose,
    keys,
    memory,
    predict,
    report,
    reproduce,
    serve,
    show,
    train,
    tsv,
    verify,
)

app = typer.Typer(
    name="anisocert",
    help="Certify large regions around inputs in which a smoothed classifier's answer does not change.",
    epilog="Start with: anisocert demo    (--debug anywhere shows tracebacks)\n\n"
    "Exit codes: 0 done; 1 an error, or verify found something wrong; 2 wrong usage; 3 stopped before the end, by "
    "--time-budget or Ctrl-C: the same command resumes; or verify could not recompute everything.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anisocert {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Certify large regions around inputs in which a smoothed classifier's answer does not change."""


app.command("demo", epilog="Example: anisocert demo --max 50 --n 1000 --out runs/quick")(demo.demo)
app.command("diagnose", epilog=diagnose.EPILOG)(diagnose.diagnose)
app.command("certify", epilog=certify.EPILOG)(certify.certify)
app.command("predict", epilog=predict.EPILOG)(predict.predict)
app.add_typer(data.app, name="data")
app.add_typer(memory.app, name="memory")
app.command("train", epilog="Example: anisocert train --data cifar10 --arch resnet18 --sigma 0.25 --out nets/cohen")(
    train.train
)
app.command("codebook", epilog=codebook.EPILOG)(codebook.codebook)
app.command("verify", epilog="Example: anisocert verify runs/demo/l2-fixed --recount 10")(verify.verify)
app.command("attack", epilog=attack.EPILOG)(attack.attack)
app.command("show", epilog=show.EPILOG)(show.show)
app.command("serve", epilog=serve.EPILOG)(serve.serve)
app.add_typer(keys.app, name="keys")
app.command("report", epilog=report.EPILOG)(report.report)
app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
app.command("import", epilog=tsv.IMPORT_EPILOG)(tsv.import_)
app.command("export", epilog=tsv.EXPORT_EPILOG)(tsv.export)
