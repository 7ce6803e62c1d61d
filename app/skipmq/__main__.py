"""`python -m skipmq` is `skipmq`."""

from skipmq.cli import main

if __name__ == "__main__":
    main()
