"""The command line: which commands and options there are; what a command does is in `collector.commands`."""
