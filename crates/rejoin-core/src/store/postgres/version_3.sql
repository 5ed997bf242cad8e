-- Version 3: an append is a function, which each connection plans once. Programs that know earlier
-- versions can go on.

LOCK TABLE @.store;

-- Appends to the log `log` a block from `start` to `ending`; false if the holder's epoch is not
-- `claim` any longer, or if the log does not end at `start`. A block longer than `longest` becomes
-- several. `mode` is what the commit is to wait for.
CREATE FUNCTION @.append(log bigint, claim bigint, start bigint, ending bigint, mode text,
    appended bytea, longest int) RETURNS bool LANGUAGE plpgsql AS $append$
BEGIN
    UPDATE @.fence f
        SET end_off = ending, changed = (extract(epoch from clock_timestamp()) * 1000)::bigint
        WHERE f.no = log AND f.epoch = claim AND f.end_off = start;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('synchronous_commit', mode, true);
    IF ending - start <= longest THEN
        INSERT INTO @.block VALUES (log, start, claim, appended);
    ELSE
        INSERT INTO @.block
            SELECT log, start + at, claim, substring(appended FROM at + 1 FOR longest)
            FROM generate_series(0, length(appended) - 1, longest) AS at;
    END IF;
    RETURN true;
END
$append$;

UPDATE @.store SET version = 3;
