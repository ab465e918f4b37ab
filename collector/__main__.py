"""`python -m collector` is `misstep`."""

from collector.cli.main import main

main()
