"""`python -m anisocert`."""

from anisocert.cli import main

main()
