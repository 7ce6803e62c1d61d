"""Settings of a node, read from the environment, one TOML file and the command line."""

from skipmq.config.environment import (
    PREFIX,
    ConfigError,
    Configuration,
    about,
    load,
    service_manager,
)

__all__ = [
    "PREFIX",
    "ConfigError",
    "Configuration",
    "about",
    "load",
    "service_manager",
]
