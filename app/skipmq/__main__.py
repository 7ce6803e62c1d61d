"""The program `skipmq`."""


def main() -> None:
    """Run the command line."""
    # Worker processes import this module too and need nothing of the command line.
    from skipmq.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
