from django.db import migrations, models

from skipmq import Queue


def announce(_: object, schema_editor: object) -> None:
    """Send within a migration, which the schema must come before."""
    Queue("news").send("the shop is open", using=schema_editor.connection.alias)  # type: ignore[attr-defined]


NUMBER = models.BigAutoField(
    auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
)


class Migration(migrations.Migration):
    initial = True
    dependencies = (("skipmq", "0001_install"),)
    operations = (
        migrations.CreateModel(
            "Order",
            [
                ("id", NUMBER),
                ("item", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            "Shipment",
            [
                ("id", NUMBER),
                ("order", models.IntegerField()),
                ("receive", models.IntegerField()),
            ],
        ),
        migrations.RunPython(announce, migrations.RunPython.noop),
    )
