"""SkipMQ in a Django project: `"skipmq.django"` in INSTALLED_APPS.

Its migration installs the schema, `manage.py skipmq_work` runs consumers, the admin shows queues.
"""

from skipmq.extras import MissingExtraError

try:
    from skipmq.django.transactions import atomic as atomic
except ModuleNotFoundError as error:
    if error.name != "django":
        raise
    raise MissingExtraError("skipmq.django needs Django: pip install 'skipmq[django]'") from error
