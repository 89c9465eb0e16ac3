"""A month of 50 hosts, made of exported recordings: month.py HIVE OUT. Each host has the rows of the recordings in turn, each beginning at
another place; each has a mark a day. With STALLTOP_FULL in the environment one interval in five minutes (of tasks, one in two hours), as
docs/queries.md says, otherwise fewer. Prints the rows of each table."""

import os
import sys

import duckdb

hive, out = sys.argv[1:]
os.makedirs(out, exist_ok=True)
HOSTS, DAYS = 50, 30
PER_DAY = {"cpu": 288, "disk": 288, "task": 12, "finding": 288}
if "STALLTOP_FULL" not in os.environ:
    # A finding is looked for within ten minutes of a mark.
    PER_DAY = {"cpu": 48, "disk": 48, "task": 2, "finding": 144}

db = duckdb.connect()
for table, per_day in PER_DAY.items():
    db.execute(f"CREATE VIEW made AS SELECT * FROM read_parquet('{hive}/table={table}/**/*.parquet', hive_partitioning = true)")
    # The intervals of all recordings are numbered by their time.
    db.execute(f"CREATE TABLE times AS SELECT DISTINCT time FROM read_parquet('{hive}/table=cpu/**/*.parquet') ORDER BY time")
    db.execute("CREATE TABLE numbered AS SELECT time, row_number() OVER (ORDER BY time) - 1 AS number FROM times")
    total = db.execute("SELECT count(*) FROM numbered").fetchone()[0]
    rows = f"""
        SELECT made.* EXCLUDE (host, date, time, seconds),
          TIMESTAMPTZ '2026-10-01 00:00:00+00' + INTERVAL (days.range) DAY + INTERVAL (places.range * {1440 // per_day}) MINUTE AS time,
          {86400.0 / per_day} AS seconds, 'host' || hosts.range AS host, strftime(DATE '2026-10-01' + CAST(days.range AS INTEGER), '%Y-%m-%d') AS date
        FROM range({HOSTS}) AS hosts, range({DAYS}) AS days, range({per_day}) AS places, numbered, made
        WHERE numbered.number = (hosts.range * 7 + days.range * 3 + places.range) % {total} AND made.time = numbered.time"""
    db.execute(f"COPY ({rows}) TO '{out}/table={table}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (host, date))")
    count = db.execute(f"SELECT count(*) FROM read_parquet('{out}/table={table}/**/*.parquet')").fetchone()[0]
    print(table, count)
    db.execute("DROP VIEW made; DROP TABLE times; DROP TABLE numbered")
marks = f"""
    SELECT 'deploy ' || days.range AS text, 0.0 AS seconds,
      TIMESTAMPTZ '2026-10-01 12:00:30+00' + INTERVAL (days.range) DAY AS time,
      'host' || hosts.range AS host, strftime(DATE '2026-10-01' + CAST(days.range AS INTEGER), '%Y-%m-%d') AS date
    FROM range({HOSTS}) AS hosts, range({DAYS}) AS days"""
db.execute(f"COPY ({marks}) TO '{out}/table=mark' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (host, date))")
print("mark", HOSTS * DAYS)
