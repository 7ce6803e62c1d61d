"""The table of results, in the broker's database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """After the schema, to whose queues tasks are sent."""

    initial = True
    dependencies = (("skipmq", "0001_install"),)
    operations = (
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("task", models.TextField()),
                ("backend", models.TextField()),
                ("queue_name", models.TextField()),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("status", models.CharField(default="READY", max_length=10)),
                ("run_after", models.DateTimeField(null=True)),
                ("enqueued_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("last_attempted_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("return_value", models.JSONField(null=True)),
                ("errors", models.JSONField(default=list)),
                ("worker_ids", models.JSONField(default=list)),
            ],
            options={"verbose_name": "task"},
        ),
    )
