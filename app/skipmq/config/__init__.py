"""Settings of a node, read from the environment, one TOML file and the command line."""

from skipmq.config.environment import (
    PREFIX,
    ConfigError,
    Configuration,
    about,
    java_home,
    load,
    prepare_spark,
    prepare_spark_connect,
    service_manager,
    spark_client,
    submitted,
)

__all__ = [
    "PREFIX",
    "ConfigError",
    "Configuration",
    "about",
    "java_home",
    "load",
    "prepare_spark",
    "prepare_spark_connect",
    "service_manager",
    "spark_client",
    "submitted",
]
