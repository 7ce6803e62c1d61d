#!/bin/sh
# Run once by the image of PostgreSQL, on a new volume: the roles and the database, as Patroni makes them.
exec sh /usr/local/bin/post_bootstrap "user=postgres dbname=postgres"
