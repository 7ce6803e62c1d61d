"""The app for INSTALLED_APPS."""

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate

from skipmq.django import configuration


class SkipMQConfig(AppConfig):
    """SkipMQ, under the label skipmq."""

    name = "skipmq.django"
    label = "skipmq"
    verbose_name = "SkipMQ"

    def ready(self) -> None:
        """Check the setting, and follow `manage.py migrate`."""
        configuration.remember_names()
        checks.register(configuration.check, configuration.TAG)
        post_migrate.connect(_migrated, sender=self)


def _migrated(**given: Any) -> None:
    from skipmq.django import installation  # noqa: PLC0415 - only commands that migrate need it.

    if "plan" in given:
        installation.install(given["using"], given["stdout"] if given["verbosity"] else None)
    else:  # `flush`, which ends a TransactionTestCase too, sends the signal without a plan.
        installation.flush(given["using"])
