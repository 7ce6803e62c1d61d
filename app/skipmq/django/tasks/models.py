"""What is known of a task that was enqueued: in the broker's database, next to its message."""

from django.db import models


class TaskRun(models.Model):
    """A task and how it ended; the status is one of Django's TaskResultStatus."""

    id = models.CharField(max_length=32, primary_key=True)
    task = models.TextField()
    backend = models.TextField()
    queue_name = models.TextField()
    args = models.JSONField()
    kwargs = models.JSONField()
    status = models.CharField(max_length=10, default="READY")
    run_after = models.DateTimeField(null=True)
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    last_attempted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)
    return_value = models.JSONField(null=True)
    errors = models.JSONField(default=list)
    worker_ids = models.JSONField(default=list)

    class Meta:
        """Named as what the tests of a project look at."""

        verbose_name = "task"

    def __str__(self) -> str:
        return f"{self.task} {self.id}: {self.status}"
