#!/bin/sh
# Run once by the PostgreSQL image, on a new volume: creates the roles and the database, as under Patroni.
exec sh /usr/local/bin/post_bootstrap "user=postgres dbname=postgres"
