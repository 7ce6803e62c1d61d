"""SkipMQ in a Django project: `"skipmq.django"` in INSTALLED_APPS.

Its migration installs the schema, `manage.py skipmq_work` runs consumers, the admin shows queues.
"""

from skipmq.django.transactions import atomic as atomic
