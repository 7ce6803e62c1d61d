"""A backend for Django's tasks: `"skipmq.django.tasks"` in INSTALLED_APPS, and in TASKS.

TASKS = {"default": {"BACKEND": "skipmq.django.tasks.SkipMQBackend"}}
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import the backend when it is asked for: an app is imported before Django's models are."""
    if name != "SkipMQBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from django.apps import apps  # noqa: PLC0415 - as below.
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415 - as below.

    if apps.apps_ready and not apps.is_installed(__name__):
        raise ImproperlyConfigured(f"the backend of TASKS needs {__name__!r} in INSTALLED_APPS")
    from skipmq.django.tasks.backend import SkipMQBackend  # noqa: PLC0415 - as above.

    return SkipMQBackend
