"""The consumers of a project: those in the modules `consumers` of its apps."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from skipmq import App
from skipmq.client.consumer import Consumer
from skipmq.client.errors import ClientError
from skipmq.django import configuration


def app(names: Sequence[str] = ()) -> App:
    """Return an app with the consumers of installed apps: of these labels, or of all.

    An App without a URL is on the database of the setting SKIPMQ. Raises ClientError where there is
    none, and for consumers that cannot run together.
    """
    found = list(_named(names) if names else _all())
    if not found:
        raise ClientError(
            "no installed app has consumers: write `app = skipmq.App()` and functions with"
            " `@app.consumer(queue)` into the module consumers.py of one of INSTALLED_APPS"
        )
    own = configuration.dsn(configuration.database())
    addresses = {each.dsn or own for each in found}
    if len(addresses) > 1:
        raise ClientError(
            "the consumers are on several databases: run them one by one, as in"
            " `manage.py skipmq_work LABEL`"
        )
    whole = App(addresses.pop())
    whole.consumers = [consumer for each in found for consumer in each.consumers]
    whole.schedules = [schedule for each in found for schedule in each.schedules]
    by_queue: dict[str, Consumer] = {}
    for consumer in whole.consumers:
        other = by_queue.setdefault(consumer.queue.arn, consumer)
        if other is not consumer:
            raise ClientError(
                f"{_place(other)} and {_place(consumer)} would share the messages of"
                f" {consumer.queue.name!r}: give each queue one consumer, or run them one by one,"
                " as in `manage.py skipmq_work LABEL`"
            )
    return whole


def _all() -> Iterator[App]:
    autodiscover_modules(configuration.CONSUMERS)
    modules = (
        sys.modules.get(f"{each.name}.{configuration.CONSUMERS}") for each in apps.get_app_configs()
    )
    return _apps_in(module for module in modules if module is not None)


def _named(labels: Sequence[str]) -> Iterator[App]:
    modules = []
    for label in labels:
        try:
            name = f"{apps.get_app_config(label).name}.{configuration.CONSUMERS}"
        except LookupError as error:
            known = ", ".join(each.label for each in apps.get_app_configs())
            raise ClientError(f"no installed app is called {label!r}; there are {known}") from error
        try:
            modules.append(import_module(name))
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ClientError(f"the app {label!r} has no consumers: there is no {name}") from error
    return _apps_in(modules)


def _place(consumer: Consumer) -> str:
    return f"{getattr(consumer.handler, '__module__', '')}.{consumer.name}"


def _apps_in(modules: Iterable[Any]) -> Iterator[App]:
    """Give the apps of modules, each once: one may be imported by another."""
    found = {id(v): v for module in modules for v in vars(module).values() if isinstance(v, App)}
    return iter(found.values())
