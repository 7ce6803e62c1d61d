"""The SQL and the migrations of this release: in a wheel inside the package, or in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def folder(name: str) -> Path:
    """Return the folder `sql` or `migrations`.

    Raises FileNotFoundError when the installation is broken.
    """
    for parent in (_PACKAGE, _PACKAGE.parent.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"the folder {name} is missing from this installation of SkipMQ")


def sql_in_order() -> list[Path]:
    """Return the SQL files in the order of installation, dependencies first."""
    sql = folder("sql")
    return [
        *sorted((sql / "schema").glob("*.sql")),
        *functions(),
        planner(),
        *sorted((sql / "views").glob("*.sql")),
        sql / "partitions.sql",
        roles(),
    ]


def functions() -> list[Path]:
    """Return the SQL files of functions by name: they are in folders by who calls them."""
    return sorted((folder("sql") / "functions").rglob("*.sql"), key=lambda file: file.name)


def first_migration() -> str:
    """Return the SQL of the first migration: sql/ without roles.sql, which every run applies."""
    files = [file.read_text(encoding="utf-8") for file in sql_in_order() if file != roles()]
    return "".join(["set local check_function_bodies = off;\n", *files])


def planner() -> Path:
    """Return the SQL file that gives functions their planner settings."""
    return folder("sql") / "planner.sql"


def roles() -> Path:
    """Return the SQL file that grants each role its rights."""
    return folder("sql") / "roles.sql"
