"""The program `skipmq`."""

import gc

# What is imported stays: looking for garbage in it takes some 25 ms of a start.
_COLLECTED_AFTER = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_COLLECTED_AFTER)
    # Worker processes import this module too and need nothing of the command line.
    from skipmq.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
