"""The app for INSTALLED_APPS."""

from django.apps import AppConfig
from django.core import checks

from skipmq.django import configuration


class SkipMQTasksConfig(AppConfig):
    """The results of tasks, and the consumer that runs them."""

    name = "skipmq.django.tasks"
    label = "skipmq_tasks"
    verbose_name = "Tasks of SkipMQ"

    def ready(self) -> None:
        """Check the setting TASKS."""
        from skipmq.django.tasks.backend import check  # noqa: PLC0415 - it imports the model.

        checks.register(check, configuration.TAG)
