"""Settings of a node, read from the environment, one TOML file and the command line."""

from skipmq.config.environment import PREFIX as PREFIX
from skipmq.config.environment import ConfigError as ConfigError
from skipmq.config.environment import Configuration as Configuration
from skipmq.config.environment import about as about
from skipmq.config.environment import load as load
from skipmq.config.environment import service_manager as service_manager
