"""The command line: one thin file a command."""

import sys
import warnings

from anisocert.errors import AnisocertError, MissingExtraError


def main() -> None:
    """Run the command line; errors are one readable line, with `--debug` the whole traceback."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        try:
            from anisocert.cli.app import app
        except ModuleNotFoundError as error:
            extra = "the command line needs typer and rich: pip install 'anisocert[cli]'"
            raise MissingExtraError(f"{extra} ({error.name} is missing)") from error
        app()
    except (AnisocertError, OSError) as error:
        if debug:
            raise
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
