"""A whole cluster on this machine: PostgreSQL under Patroni with etcd, HAProxy, and nodes."""

from local_cluster.cluster import LocalCluster
from local_cluster.errors import ClusterError

__all__ = ["ClusterError", "LocalCluster"]
