"""The queues of the broker, for the admin and its permissions."""

from django.db import models


class Queue(models.Model):
    """A queue, as the view skipmq_views.queue shows it; retired ones are among them."""

    queue_id = models.IntegerField(primary_key=True)
    account = models.TextField()
    region = models.TextField()
    name = models.TextField(db_column="queue")

    class Meta:
        """Read only, and none of Django's tables."""

        managed = False
        db_table = '"skipmq_views"."queue"'
        default_permissions = ("view",)
        permissions = (("view_messages", "Can view messages of queues"),)

    def __str__(self) -> str:
        return str(self.name)
