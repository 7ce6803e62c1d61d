"""Load settings: `SKIPMQ_*` variables override one TOML file, which overrides defaults."""

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from skipmq.config import queue_files
from skipmq.config.declarations import Difference, Found
from skipmq.config.settings import SECRETS, Settings

PREFIX = "SKIPMQ_"
_FIELDS = {each.name: each for each in fields(Settings)}
_FILE_VARIABLE = "SKIPMQ_CONFIG"
# The name of systemd's LoadCredential= for the master key.
_CREDENTIAL = "skipmq-master-key"
# Quote only well-formed names of settings: a malformed one may be a misplaced secret.
_SETTING = re.compile("[a-z_]{1,40}")
# A URL that names a user.
_USER = re.compile(r"://[^/?#\s]*@")
# Settings that are lists: the property that parses one, and the advice for one that is invalid.
_LISTS = {
    "master_key": (
        "master_keys",
        "a master key is 32 bytes in base64: `openssl rand -base64 32`",
    ),
    "delivery_networks": (
        "delivery_allowed",
        "write addresses or networks, such as 10.0.0.0/24, separated by spaces",
    ),
    "trusted_proxies": (
        "proxies",
        "write addresses or networks, such as 127.0.0.1 10.0.0.0/24, separated by spaces",
    ),
}


class ConfigError(Exception):
    """Invalid settings; `problems` has one line for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The effective settings, and the source of each: `default`, a variable, or the file.

    `differences` are the settings of another broker without an exact counterpart.
    """

    settings: Settings
    sources: Mapping[str, str]
    differences: tuple[Difference, ...] = ()


def service_manager() -> tuple[str, float]:
    """Return systemd's notification socket, or "", and its watchdog interval in seconds, or 0.

    Source: sd_notify(3), sd_watchdog_enabled(3).
    """
    is_ours = os.environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    microseconds = os.environ.get("WATCHDOG_USEC", "") if is_ours else ""
    seconds = int(microseconds) / 1e6 if microseconds.isdecimal() else 0.0
    return os.environ.get("NOTIFY_SOCKET", ""), seconds


def about(name: str) -> str:
    """Return the one-line description of a setting."""
    return str(_FIELDS[name].metadata["about"])


def load(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Configuration:
    """Return the effective settings.

    `overrides` are command-line options. `file` defaults to the file that SKIPMQ_CONFIG names.
    Raises ConfigError with all problems.
    """
    environment = os.environ if environment is None else environment
    problems: list[str] = []
    found: dict[str, tuple[Any, str]] = {}
    if file is None and environment.get(_FILE_VARIABLE):
        file = Path(environment[_FILE_VARIABLE])
    if file is not None:
        _read_file(file, found, problems)
    files = {f"{PREFIX}{name.upper()}_FILE": name for name in SECRETS}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable == _FILE_VARIABLE or variable in files:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in _FIELDS:
            found[name] = (text, variable)
        else:
            shown = variable if _SETTING.fullmatch(name) else f"{PREFIX}…"
            problems.append(f"{shown}: there is no such setting{_suggestion(name, PREFIX)}")
    _read_secrets(environment, files, found, problems)
    for name, value in (overrides or {}).items():
        if value is not None:
            found[name] = (value, "command line")
    declared = _read_queues(found, problems)
    values = {
        name: _typed(name, value, source, problems) for name, (value, source) in found.items()
    }
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    _check_lists(settings, found, problems)
    _check_urls(settings, found, problems)
    if problems:
        raise ConfigError(problems)
    sources = {name: found[name][1] if name in found else "default" for name in _FIELDS}
    return Configuration(settings, sources, queue_files.applicable(declared, sources))


def _read_queues(found: dict[str, tuple[Any, str]], problems: list[str]) -> Found:
    """Read the file of queues, if one is named; its settings are those that nothing else sets."""
    file, source = found.pop("queues", ("", ""))
    if isinstance(file, tuple):
        found["queues"] = (file, source)
        return Found(file)
    if not file:
        return Found(())
    declared = queue_files.read(Path(file), problems)
    found["queues"] = (declared.queues, source if source.startswith(PREFIX) else str(file))
    for name, value in declared.settings.items():
        found.setdefault(name, (value, str(file)))
    return declared


def _check_lists(
    settings: Settings, found: Mapping[str, tuple[Any, str]], problems: list[str]
) -> None:
    for name, (items, advice) in _LISTS.items():
        try:
            getattr(settings, items)
        except ValueError:
            problems.append(f"{found[name][1]}: {advice}")


def _check_urls(
    settings: Settings, found: Mapping[str, tuple[Any, str]], problems: list[str]
) -> None:
    """Report passwords in the URLs of settings that are not secret, without quoting them."""
    for name, (_, source) in found.items():
        value = getattr(settings, name)
        if name in SECRETS or not isinstance(value, str):
            continue
        if _USER.search(value):
            origin = source if source.startswith(PREFIX) else f"{source}: {name}"
            problems.append(f"{origin}: write the URL without a user and a password: it is shown")


def _read_secrets(
    environment: Mapping[str, str],
    files: Mapping[str, str],
    found: dict[str, tuple[Any, str]],
    problems: list[str],
) -> None:
    """Read secret settings from the SKIPMQ_X_FILE variables and from systemd's credential."""
    for variable, name in files.items():
        if not (path := environment.get(variable)):
            continue
        if (other := f"{PREFIX}{name.upper()}") in environment:
            problems.append(f"{variable}: {other} is set too")
            continue
        try:
            found[name] = (Path(path).read_text(encoding="utf-8").strip(), variable)
        except (OSError, ValueError) as error:
            # Do not quote the value: it may be the secret itself instead of its file.
            problems.append(f"{variable}: the file cannot be read: {_reason(error)}")
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if folder and "master_key" not in found and (file := Path(folder) / _CREDENTIAL).is_file():
        try:
            found["master_key"] = (file.read_text(encoding="utf-8").strip(), str(file))
        except (OSError, ValueError) as error:
            problems.append(f"{file} cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without quoting its content."""
    return (isinstance(error, OSError) and error.strerror) or "it is not text"


def _read_file(file: Path, found: dict[str, tuple[Any, str]], problems: list[str]) -> None:
    for name, value in queue_files.read_toml(file, problems).items():
        if name not in _FIELDS:
            shown = name if _SETTING.fullmatch(name) else "a key"
            problems.append(f"{file}: {shown}: there is no such setting{_suggestion(name)}")
        elif name == "queues" and isinstance(value, str):
            found[name] = (file.parent / value, str(file))
        elif name == "queues":
            found[name] = (queue_files.declared(file, value, problems), str(file))
        else:
            found[name] = (value, str(file))


def _typed(name: str, value: Any, source: str, problems: list[str]) -> Any:
    if name == "queues":
        return value
    hint = get_type_hints(Settings, include_extras=True)[name]
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        default = _FIELDS[name].default
        expected = f" (default {default!r})" if default not in ("", MISSING) else ""
        origin = source if source.startswith(PREFIX) else f"{source}: {name}"
        shown = "" if name in SECRETS else f"={value!r}"
        reason = "it is empty: leave it out, or give a value" if value == "" else str(error).lower()
        problems.append(f"{origin}{shown}: {reason}{expected}")
        return None


def _suggestion(name: str, prefix: str = "") -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - needed only for this message.

    close = get_close_matches(name, _FIELDS, n=1)
    close = [prefix + (name.upper() if prefix else name) for name in close]
    return f"; did you mean {close[0]}?" if close else "; `skipmq config` lists all"
