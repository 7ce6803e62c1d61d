"""The migration that installs the schema, and what the setting SKIPMQ says."""

import json
from collections.abc import Callable
from typing import Any

import psycopg

from skipmq.database import schema
from support.postgres import Connection, Databases
from support.sql import number

LITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}
DEAD = "arn:aws:sqs:us-east-1:000000000000:dead"


def installed(connection: Connection) -> bool:
    return bool(number(connection, "select to_regclass('skipmq.message') is not null"))


def test_schema_and_queues_come_before_what_depends_on_them(
    manage: Any, tables: Connection
) -> None:
    printed = manage.run("migrate", "--no-color")

    assert schema.inspect(manage.url).is_current
    assert printed.index("skipmq.0001_install... OK") < printed.index("shop.0001_first... OK")
    sent = "select body from skipmq_views.message where queue = 'news'"
    assert number(tables, sent) == "the shop is open"
    timeout = "select visibility_timeout from skipmq_views.queue where queue = 'orders'"
    assert number(tables, timeout) == 60

    again = manage.run("migrate", "--no-color")

    assert "No migrations to apply." in again
    assert "SkipMQ" not in again
    assert "No changes detected" in manage.run("makemigrations", "--check", "--dry-run")
    # What `loaddata` would put into a view.
    assert "skipmq.queue" not in manage.run("dumpdata", "--all", "skipmq", "shop")


def test_later_release_is_installed_by_the_next_migrate(shop: Any, tables: Connection) -> None:
    """The schema is behind, and Django knows of nothing to apply."""
    tables.execute("drop schema skipmq cascade; drop schema skipmq_views cascade")

    printed = shop.run("migrate", "--no-color")

    assert "No migrations to apply." in printed
    assert "SkipMQ: migrated to 0001_pre_first" in printed
    assert schema.inspect(shop.url).is_current


def test_rights_are_granted_again_by_each_migrate(shop: Any, tables: Connection) -> None:
    granted = "select has_function_privilege('skipmq_node', 'skipmq.clock()', 'execute')"
    tables.execute("revoke execute on function skipmq.clock() from skipmq_node")
    assert not number(tables, granted)

    shop.run("migrate")

    assert number(tables, granted)


def test_migration_removes_no_message_backwards(shop: Any, tables: Connection) -> None:
    shop.run("migrate", "shop", "zero")
    shop.run("migrate", "skipmq", "zero")

    assert number(tables, "select count(*) from skipmq_views.message") == 1


def test_schema_of_others_is_left_alone(manage: Any, tables: Connection) -> None:
    manage.settings["skipmq"] = {"MANAGED": False}

    manage.run("migrate", "skipmq")

    assert not installed(tables)


def test_schema_is_installed_where_the_setting_says(
    manage: Any, tables: Connection, databases: Databases, database_of: Callable[[str], Any]
) -> None:
    url = databases.empty()
    manage.settings["databases"]["broker"] = database_of(url)
    manage.settings["skipmq"] = {"DATABASE": "broker", "QUEUES": {"orders": {}}}
    try:
        manage.run("migrate", "skipmq")
        assert not installed(tables)

        manage.run("migrate", "skipmq", "--database", "broker")

        with psycopg.connect(url, autocommit=True) as connection:
            assert number(connection, "select queue from skipmq_views.queue") == "orders"
        assert not installed(tables)
    finally:
        databases.drop(url)


def test_declared_queue_that_is_there_stays_as_it_is(shop: Any, tables: Connection) -> None:
    policy = {"deadLetterTargetArn": "dead", "maxReceiveCount": 3}
    shop.settings["skipmq"]["QUEUES"] = {
        "orders": {"VisibilityTimeout": 7},
        "news": {"RedrivePolicy": policy},
        "dead": {},
        "groups.fifo": {"ContentBasedDeduplication": True},
    }

    printed = shop.run("migrate")
    policy["maxReceiveCount"] = 4
    again = shop.run("migrate")

    assert "SkipMQ: 'orders' stays as it is: A queue already exists" in printed
    assert "'news'" not in printed
    assert "SkipMQ: 'news' stays as it is: its RedrivePolicy is" in again
    found = tables.execute(
        "select queue, visibility_timeout, dead_letter_name, max_receive_count, fifo"
        " from skipmq_views.queue where queue in ('orders', 'news', 'groups.fifo') order by 1"
    ).fetchall()
    assert found == [
        ("groups.fifo", 30, None, None, True),
        ("news", 30, "dead", 3, False),
        ("orders", 60, None, None, False),
    ]


WRONG_SETTINGS = [
    (["x"], "SKIPMQ is no dict."),
    ({"MANAGD": False}, "SKIPMQ has the unknown key 'MANAGD'."),
    ({"MANAGED": "no"}, "SKIPMQ['MANAGED'] is 'no'."),
    ({"QUEUES": {"orders": 60}}, "SKIPMQ['QUEUES']['orders'] is 60."),
    ({"DATABASE": "brokr"}, "SKIPMQ is in the database 'brokr', which DATABASES does not have."),
    ({"DATABASE": "lite"}, "SKIPMQ is in the database 'lite' of sqlite, and needs PostgreSQL."),
]
WRONG_QUEUES = [
    ({"orders": {"VisibilityTimeout": -1}}, "Invalid value for the parameter VisibilityTimeout."),
    ({"orders": {"Visibility": 1}}, "Unknown Attribute Visibility."),
    ({"order s": {}}, "Can only include alphanumeric characters, hyphens, or underscores."),
    ({"orders": {"RedrivePolicy": {"deadLetterTargetArn": DEAD, "maxReceiveCount": 3}}}, DEAD),
]
MIGRATE_WITH_EACH = """
import json
from django.core.management import CommandError, call_command
from django.test import override_settings
for setting in json.loads({!r}):
    with override_settings(SKIPMQ=setting):
        try:
            call_command("migrate", "skipmq", verbosity=0)
        except CommandError as error:
            print(json.dumps(str(error)))
"""


def errors_with(manage: Any, settings: list[Any]) -> list[str]:
    """Migrate with one setting SKIPMQ after the other, in one process; return the errors."""
    program = MIGRATE_WITH_EACH.format(json.dumps(settings))
    printed = manage.run("shell", "--no-imports", "-c", program)
    return [json.loads(line) for line in printed.splitlines()]


def test_wrong_setting_is_an_error_with_the_remedy(manage: Any, tables: Connection) -> None:
    manage.settings["databases"]["lite"] = LITE

    found = errors_with(manage, [setting for setting, _ in WRONG_SETTINGS])

    for error, (_, text) in zip(found, WRONG_SETTINGS, strict=True):
        assert error.startswith(f"{text} ")
    assert not installed(tables)


def test_wrong_setting_is_no_traceback(manage: Any) -> None:
    manage.settings["skipmq"] = {"MANAGD": False}

    printed = manage.run("migrate", code=1)

    assert "SKIPMQ has the unknown key 'MANAGD'." in printed
    assert "Traceback" not in printed


def test_wrong_queue_is_an_error(manage: Any) -> None:
    found = errors_with(manage, [{"QUEUES": queue} for queue, _ in WRONG_QUEUES])

    for error, (queue, text) in zip(found, WRONG_QUEUES, strict=True):
        assert error.startswith(f"SKIPMQ['QUEUES']['{next(iter(queue))}']: ")
        assert text in error


def test_role_without_rights_gets_an_error_with_the_remedy(manage: Any, tables: Connection) -> None:
    # It may all that Django needs, and create no schema.
    tables.execute("create role tenant login")
    tables.execute("grant all on schema public to tenant")
    manage.settings["databases"]["default"]["USER"] = "tenant"
    try:
        printed = manage.run("migrate", code=1)
    finally:
        tables.execute("drop owned by tenant; drop role tenant")

    assert "CommandError: SkipMQ cannot be installed into the database 'default': " in printed
    assert "nothing was migrated (permission denied for database " in printed
    assert "`skipmq migrate --print-sql`" in printed
    assert "Traceback" not in printed


def test_missing_server_is_an_error_with_the_remedy(manage: Any) -> None:
    manage.settings["missing"] = ["cryptography"]

    printed = manage.run("migrate", code=1)

    assert "the module cryptography is missing: pip install 'skipmq[server]'" in printed
    assert "Traceback" not in printed


def test_application_that_does_not_manage_the_schema_needs_no_server(
    manage: Any, tables: Connection
) -> None:
    manage.settings |= {"missing": ["structlog", "cryptography", "alembic", "sqlalchemy", "flask"]}
    schema.migrate(manage.url)
    for queue in ("orders", "news", "sessions", "async-sessions"):
        tables.execute("select skipmq.create_queue(%s)", (queue,))
    manage.settings["skipmq"] = {"MANAGED": False}

    manage.run("migrate")
    manage.place()

    with manage.start("skipmq_work", "--once") as worker:
        assert worker.ended() == 0
    assert worker.lines[-1] == "skipmq: stopped (1 done)"


def test_address_has_what_django_gives_to_libpq(manage: Any, tables: Connection) -> None:
    """A password with special characters, and options of the connection."""
    tables.execute("create role quoted login superuser password 'o''clock \\ @ '")
    given = manage.settings["databases"]["default"]
    given |= {"USER": "quoted", "PASSWORD": "o'clock \\ @ "}
    given["OPTIONS"] = {"options": "-c work_mem=5MB", "connect_timeout": 9, "pool": False}
    try:
        program = (
            "from skipmq.django.configuration import dsn; import psycopg;"
            " c = psycopg.connect(dsn('default'));"
            " print(c.info.user, c.info.password, c.execute('show work_mem').fetchone())"
        )
        printed = manage.run("shell", "--no-imports", "-c", program)
        manage.run("migrate", "skipmq")
    finally:
        tables.execute("reassign owned by quoted to current_user; drop owned by quoted")
        tables.execute("drop role quoted")

    assert printed.strip() == "quoted o'clock \\ @  ('5MB',)"
