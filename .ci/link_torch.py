"""Puts the torch that pip has installed here into another environment, by hard links: it need not be unpacked twice."""

import os
import sys
import sysconfig
from importlib.metadata import files
from pathlib import Path

there = Path(sysconfig.get_path("platlib", vars={"platbase": sys.argv[1]}))
for file in files("torch") or ():
    if ".." not in file.parts and file.locate().exists():  # its scripts are outside, and compiled files may be listed
        (there / file).parent.mkdir(parents=True, exist_ok=True)
        os.link(file.locate(), there / file)
