"""`python -m collector` is `misstep`."""

from collector.cli import main

main()
