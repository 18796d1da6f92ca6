"""The command line: bootstrap (standard library only) and one file for each subcommand."""
