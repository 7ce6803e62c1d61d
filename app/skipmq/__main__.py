"""The program `skipmq`."""

import gc
import sys

# Imports make no garbage; to look for it takes 25 ms of a start.
_GC_THRESHOLD = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_GC_THRESHOLD)
    try:
        # Imported here, since worker processes import this module too and do not need the command
        # line.
        from skipmq.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
