"""Where a command looks for its queues: the account and region of options, ARNs and settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from skipmq.config.settings import Settings
from skipmq.protocol import errors, limits, names
from skipmq.protocol.identity import QueueName

_FIELDS = ("account", "region")
# How similar a name is to one that may be meant.
_SIMILAR = 0.75
# Actions of those who may have forgotten to create a queue.
_OF_NEW = {"ReceiveMessage", "SendMessage", "SendMessageBatch"}
_OPTIONS, _QUEUE = "skipmq.options", "skipmq.queue"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def given(context: click.Context) -> Mapping[str, str]:
    """Return the account, region and endpoint of a command's options, and of the queue it names.

    Raises click.UsageError if they differ.
    """
    options = context.meta.get(_OPTIONS, {})
    text, named = context.meta.get(_QUEUE, ("", {}))
    for field in _FIELDS:
        if field in options and field in named and options[field] != named[field]:
            raise click.UsageError(
                f"{text} is of {field} {named[field]}, and --{field} says {options[field]}: leave"
                f" --{field} out"
            )
    return {**options, **named}


def full_name(text: str, settings: Settings) -> QueueName:
    """Return the queue that a name, a URL or an ARN stands for; by default of the settings' place.

    Raises names.QueueNameError.
    """
    named = names.parse(text)
    return QueueName(named.account or settings.account, named.region or settings.region, named.name)


def missing(
    name: QueueName, others: Sequence[tuple[str, str]], known: Iterable[str], action: str
) -> errors.QueueDoesNotExist:
    """Return the error for a queue that is not there.

    `others` are the places that have one of its name, `known` the names of its own place, `action`
    what was to be done with it.
    """
    text = f"queue {name.name} does not exist in account {name.account}, region {name.region}"
    if not others:
        return errors.QueueDoesNotExist(f"{text}: {remedy(name.name, known, action)}")
    account, region = next((each for each in others if each[0] == name.account), others[0])
    more = f" (and in {len(others) - 1} other places)" if len(others) > 1 else ""
    if account == name.account:
        where, options = region, f"--region {region}"
    elif region == name.region:
        where, options = f"account {account}", f"--account {account}"
    else:
        where, options = (
            f"account {account}, region {region}",
            f"--account {account} --region {region}",
        )
    return errors.QueueDoesNotExist(f"{text}; there is one in {where}{more}: add {options}")


def remedy(name: str, known: Iterable[str], action: str) -> str:
    """Return what to do about a queue that is not there: name another one, or create it."""
    if close := get_close_matches(name, known, n=1, cutoff=_SIMILAR):
        return f"did you mean {close[0]}?"
    if action in _OF_NEW:
        return "create it with `skipmq queue create`"
    return "`skipmq queue list` shows the others"


def _option(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        if parameter.name == "account" and not limits.ACCOUNT.fullmatch(value):
            raise click.BadParameter("an account is 12 digits", param_hint="--account")
        context.meta.setdefault(_OPTIONS, {})[parameter.name] = value


def name_of(context: click.Context, _: click.Parameter, text: str | None) -> str | None:
    """Return the name of a queue; keep the account and the region that a URL or an ARN has.

    It is the callback of a parameter. Raises names.QueueNameError.
    """
    if text is None:
        return None
    named = names.parse(text)
    places = {field: value for field in _FIELDS if (value := getattr(named, field)) is not None}
    context.meta[_QUEUE] = (text, places)
    return named.name


def queue_url(text: str, account: str | None, region: str) -> str:
    """Return the URL of the queue of a region that a name, a URL or an ARN stands for.

    By default it is of the account, if any. Raises names.QueueNameError, click.UsageError for a
    queue of another region.
    """
    named = names.parse(text)
    if named.region not in {None, region}:
        raise click.UsageError(
            f"the queue {named.name} is in {named.region}, and messages move within a region, here"
            f" {region}"
        )
    owner = named.account or account
    return f"/{owner}/{named.name}" if owner else named.name


def reached(command: Decorated) -> Decorated:
    """Add the option `--endpoint`, which `configuration` puts into the settings, and a place's."""
    for name, metavar, text in (
        ("--client-key", "FILE", "Private key of that certificate, in PEM."),
        ("--client-certificate", "FILE", "Certificate to show to the endpoint, in PEM."),
        (
            "--endpoint",
            "URL",
            "Node to call by HTTP in place of the database (default: SKIPMQ_ENDPOINT).",
        ),
    ):
        # Eager as the region, for the shell that completes names.
        option = click.option(
            name, metavar=metavar, is_eager=True, expose_value=False, callback=_option, help=text
        )
        command = option(command)
    return in_place(command)


def in_place(command: Decorated) -> Decorated:
    """Add the options `--region` and `--account`, which `configuration` puts into the settings."""
    account = click.option(
        "--account",
        metavar="ACCOUNT",
        expose_value=False,
        callback=_option,
        help="Account of the queue, 12 digits (default: SKIPMQ_ACCOUNT).",
    )
    region = click.option(
        "--region",
        metavar="REGION",
        is_eager=True,  # So that the shell completes names of this region.
        expose_value=False,
        callback=_option,
        help="Region of the queue (default: SKIPMQ_REGION).",
    )
    return region(account(command))
