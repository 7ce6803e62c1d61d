"""The benchmark: SkipMQ and its peers under the same load, in turn, in one run."""
