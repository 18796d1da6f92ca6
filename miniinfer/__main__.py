"""`python3 -m miniinfer`: refuses an old Python with a sentence, then hands over to cli/."""

import sys

OLDEST_PYTHON = (3, 11)


def main() -> int:
    """Run the command line on sys.argv; return its exit status."""
    if sys.version_info < OLDEST_PYTHON:
        sys.stderr.write(
            "miniinfer: MiniInfer needs Python {}.{} or newer and this is {}.{}; install a newer one (python.org or "
            "your system's packages) and start MiniInfer with it, for example: python3.12 -m miniinfer run\n".format(
                *(OLDEST_PYTHON + sys.version_info[:2])
            )
        )
        return 1
    try:
        from miniinfer.cli.main import main as run_command

        return run_command(sys.argv[1:])
    except KeyboardInterrupt:  # while the command itself was still being read
        return 130


if __name__ == "__main__":
    sys.exit(main())
