#!/bin/bash
# PostgreSQL with 100 connections that ask nothing, beside 4 clients that read: nothing waits for a lock
set -eu; . "$(dirname "$0")/lib.sh"; . "$(dirname "$0")/pg.inc"
cp -a $TPL $RUN/pg; conf $RUN/pg >> $RUN/pg/postgresql.conf; chmod 755 $WORK/run $RUN
(cd /tmp; as $PGB/pg_ctl -D $RUN/pg -w -l $RUN/pg/log start 9>&- >/dev/null); undo "runuser -u postgres -- $PGB/pg_ctl -D $RUN/pg -m immediate -t 10 stop"
printf '\\sleep %s s\nSELECT 1;\n' $T > $RUN/idle.sql; chmod 644 $RUN/idle.sql
(cd /tmp; as $PGB/pgbench -h $RUN/pg -p 54329 -n -c 100 -f $RUN/idle.sql -t 1 postgres 9>&- >/dev/null 2>&1) &
until [ "$(cd /tmp; as $PGB/psql -h $RUN/pg -p 54329 -qtAc "select count(*) from pg_stat_activity where application_name = 'pgbench'" postgres)" -ge 100 ]; do sleep 0.2; done
say "100 idle connections, 4 pgbench clients (select only, 400/s), ${T}s"; touch $RUN/ready
(cd /tmp; as $PGB/pgbench -h $RUN/pg -p 54329 -S -n -c 4 -R 400 -T $T postgres 9>&- 2>&1 | grep -E 'tps|latency average')
