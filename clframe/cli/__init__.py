"""The command line: one module per command, found by `clframe.cli.main`."""
