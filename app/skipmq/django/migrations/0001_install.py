"""Install the schema of SkipMQ, so that migrations of other apps can depend on it.

It is the only one of its kind. Later releases bring the schema further after each
`manage.py migrate` (the signal post_migrate), and not by a migration here for each release: the
migrations of the schema are those that `skipmq migrate` runs, under a lock that nodes respect, and
the rights of roles are granted again each time. Nothing is removed backwards: the schema has
messages, of other programs too.
"""

from typing import Any

from django.db import migrations, models

from skipmq.django import installation


def _install(_: Any, schema_editor: Any) -> None:
    installation.install(schema_editor.connection.alias)


class Migration(migrations.Migration):
    """Not in Django's transaction: the schema is installed on a connection of its own."""

    initial = True
    atomic = False
    dependencies = ()
    operations = (
        migrations.RunPython(_install, migrations.RunPython.noop),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("queue_id", models.IntegerField(primary_key=True, serialize=False)),
                ("account", models.TextField()),
                ("region", models.TextField()),
                ("name", models.TextField(db_column="queue")),
            ],
            options={
                "db_table": '"skipmq_views"."queue"',
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "permissions": (("view_messages", "Can view messages of queues"),),
            },
        ),
    )
