"""Writes the SQL of the first migration from sql/: `make freeze`, until 0.1.0 is released.

Roles are not part of it: every `skipmq migrate` applies sql/roles.sql again.
"""

from skipmq.database import files

FIRST = files.folder("migrations") / "versions" / "0001_pre_first.sql"


def first() -> str:
    """Return the SQL of the first migration."""
    sql = [
        file.read_text(encoding="utf-8") for file in files.sql_in_order() if file != files.roles()
    ]
    return "".join(["set local check_function_bodies = off;\n", *sql])


if __name__ == "__main__":
    FIRST.write_text(first(), encoding="utf-8")
