"""Queues spread over several databases behind routers of PL/Proxy; a node is the same.

A partition is a database with the schema of SkipMQ and a share of the queues. A router is a
database with the schema's functions and none of its tables: each call goes to the partition that
has the queue. It keeps nothing but the map, so that a lost one is made again.
"""
