"""The queues of the broker, for the admin and its permissions."""

from typing import Any

from django.db import models


class _NoRows(models.Manager):
    """Gives none: `dumpdata` would write rows that `loaddata` cannot put into a view."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Queue(models.Model):
    """A queue of the view skipmq_views.queue, whose pages in the admin do without Django's SQL."""

    queue_id = models.IntegerField(primary_key=True)
    account = models.TextField()
    region = models.TextField()
    name = models.TextField(db_column="queue")

    objects = _NoRows()

    class Meta:
        """Read only, and none of Django's tables."""

        managed = False
        base_manager_name = "objects"
        db_table = '"skipmq_views"."queue"'
        default_permissions = ("view",)
        permissions = (("view_messages", "Can view messages of queues"),)

    def __str__(self) -> str:
        return str(self.name)
