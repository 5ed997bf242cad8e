-- Version 4: a claim has a token of its own, which every change of a log names, so that no failover
-- can make two claims look alike. Roles change sessions, logs and processes through functions, which
-- act with the rights of the tables' owner and check whose rows these are. Earlier programs can no
-- longer write.

LOCK TABLE @.store;

-- Replication finds rows by a primary key.
ALTER TABLE @.store ADD COLUMN is_store bool NOT NULL DEFAULT true PRIMARY KEY CHECK (is_store);
ALTER TABLE @.torn ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;

-- The token of the claim; null if no process has one. Claims of earlier programs end here.
ALTER TABLE @.fence ADD COLUMN token uuid;
UPDATE @.fence SET epoch = epoch + 1, writer = NULL;

-- When a summary was last changed, by the database's clock, in milliseconds.
ALTER TABLE @.session ADD COLUMN noted_at bigint NOT NULL DEFAULT 0;
CREATE INDEX session_noted ON @.session (noted_at) WHERE noted_at > 0;

-- A process and a note belong to the role that has made them.
DELETE FROM @.writer;
ALTER TABLE @.writer ADD COLUMN owner name NOT NULL DEFAULT session_user;
DELETE FROM @.note;
ALTER TABLE @.note ADD COLUMN owner name NOT NULL DEFAULT session_user,
    DROP CONSTRAINT note_pkey, ADD PRIMARY KEY (name, owner);

-- A role also sees the processes that have its sessions open.
ALTER TABLE @.writer ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.writer USING (owner = session_user OR EXISTS (
        SELECT FROM pg_roles r WHERE r.rolname = owner AND pg_has_role(session_user, r.oid, 'member'))
    OR EXISTS (SELECT FROM @.fence f WHERE f.writer = writer.id));
ALTER TABLE @.note ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON @.note USING (owner = session_user);

-- Whether the role that has logged in may use rows of this role: its own, those of roles of which it
-- is a member, and all if it owns the tables.
CREATE FUNCTION @.may_use(name) RETURNS bool LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $may_use$
    SELECT $1 = session_user
        OR EXISTS (SELECT FROM pg_roles r
            WHERE r.rolname = $1 AND pg_has_role(session_user, r.oid, 'member'))
        OR EXISTS (SELECT FROM pg_class c
            WHERE c.oid = '@.session'::regclass AND pg_has_role(session_user, c.relowner, 'usage'))
$may_use$;

-- Says what the commit of this transaction is to wait for: nothing, or the disk and synchronous
-- standbys. A server that waits for more goes on to do that. The result is the setting: the planner
-- inlines this where it is called, which it does not do to a function without a result.
CREATE FUNCTION @.commit_waits(waits bool) RETURNS text LANGUAGE sql AS $commit_waits$
    SELECT set_config('synchronous_commit', CASE
        WHEN NOT waits THEN 'off'
        WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
        ELSE 'on' END, true)
$commit_waits$;

-- The database's time, in milliseconds.
CREATE FUNCTION @.now_ms() RETURNS bigint LANGUAGE sql AS $now_ms$
    SELECT (extract(epoch from clock_timestamp()) * 1000)::bigint
$now_ms$;

-- A sign of life of the process `me`. Returns whether the server has few connections left.
CREATE FUNCTION @.sign_of_life(me uuid, its_host text, its_pid bigint, its_boot text,
    its_client text, is_ending bool) RETURNS bool LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $sign_of_life$
BEGIN
    PERFORM @.commit_waits(false);
    INSERT INTO @.writer AS w (id, host, pid, boot, client, ending, seen, owner)
        VALUES (me, its_host, its_pid, its_boot, its_client, is_ending, now(), session_user)
        ON CONFLICT (id) DO UPDATE
            SET client = excluded.client, ending = excluded.ending, seen = excluded.seen
            WHERE w.owner = session_user;
    RETURN (SELECT 2 * sum(numbackends) > current_setting('max_connections')::bigint
        FROM pg_stat_database);
END
$sign_of_life$;

-- Begins a session, which nobody sees until it is published, and claims its log. Returns its number.
CREATE FUNCTION @.draft(its_id uuid, me uuid, claim uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $draft$
DECLARE
    made bigint;
BEGIN
    PERFORM @.commit_waits(false);
    INSERT INTO @.session (id, state, since, owner)
        VALUES (its_id, 'm', @.now_ms(), session_user) RETURNING no INTO made;
    INSERT INTO @.fence (no, epoch, end_off, writer, changed, token)
        VALUES (made, 1, 0, me, @.now_ms(), claim);
    RETURN made;
END
$draft$;

-- Claims the log of a live session, or of one that is in the trash since `trashed`, for the process
-- `me`: if no process has it, if the one that has it is `gone` or has given no sign of life for 15
-- seconds, or by force. Returns no row if it may not be claimed.
CREATE FUNCTION @.claim(its_id uuid, trashed bigint, by_force bool, me uuid, gone uuid, claim uuid,
    waits bool) RETURNS TABLE (log bigint, its_epoch bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $claim$
BEGIN
    PERFORM @.commit_waits(waits);
    RETURN QUERY UPDATE @.fence f SET epoch = f.epoch + 1, writer = me, token = claim
        FROM @.session s
        WHERE s.id = its_id AND f.no = s.no AND @.may_use(s.owner)
            AND CASE WHEN trashed IS NULL THEN s.state = 'l'
                ELSE s.state = 't' AND s.since = trashed END
            AND (by_force OR f.writer IS NULL OR f.writer = me OR f.writer = gone OR NOT EXISTS
                (SELECT FROM @.writer w
                    WHERE w.id = f.writer AND w.seen > now() - interval '15 s'))
        RETURNING f.no, f.epoch;
END
$claim$;

-- Ends claims of the process `me`.
CREATE FUNCTION @.release(me uuid, claims uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $release$
BEGIN
    PERFORM @.commit_waits(false);
    UPDATE @.fence f SET writer = NULL, token = NULL WHERE f.writer = me AND f.token = ANY (claims);
END
$release$;

-- Appends to a log a block from `start` to `ending`; false if the claim does not count any longer, or
-- if the log does not end at `start`. A block longer than `longest` becomes several. Whatever is
-- passed, the blocks of a log follow each other without a gap, and its end is that of the last one.
CREATE FUNCTION @.append(log bigint, claim uuid, start bigint, ending bigint, waits bool,
    appended bytea, longest int) RETURNS bool STRICT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $append$
DECLARE
    its_epoch bigint;
BEGIN
    IF length(appended) = 0 OR length(appended) <> ending - start OR longest < 1 THEN
        RAISE check_violation USING MESSAGE = 'a block has as many bytes as lie between its offsets';
    END IF;
    UPDATE @.fence f
        SET end_off = ending, changed = @.now_ms()
        WHERE f.no = log AND f.token = claim AND f.end_off = start RETURNING f.epoch INTO its_epoch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM @.commit_waits(waits);
    IF ending - start <= longest THEN
        INSERT INTO @.block VALUES (log, start, its_epoch, appended);
    ELSE
        INSERT INTO @.block
            SELECT log, start + at, its_epoch, substring(appended FROM at + 1 FOR longest)
            FROM generate_series(0, length(appended) - 1, longest) AS at;
    END IF;
    RETURN true;
END
$append$;

-- Makes all that was appended safe; false if the claim does not count any longer.
CREATE FUNCTION @.sync(log bigint, claim uuid) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $sync$
BEGIN
    PERFORM @.commit_waits(true);
    UPDATE @.fence f SET end_off = f.end_off WHERE f.no = log AND f.token = claim;
    RETURN FOUND;
END
$sync$;

-- Makes a session that was begun a live one, or one that is in the trash since `trashed`; false if
-- the claim does not count any longer.
CREATE FUNCTION @.publish(log bigint, claim uuid, trashed bigint, waits bool) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $publish$
DECLARE
    target "char" := CASE WHEN trashed IS NULL THEN 'l' ELSE 't' END;
BEGIN
    PERFORM @.commit_waits(waits);
    PERFORM FROM @.fence f WHERE f.no = log AND f.token = claim FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @.session s SET state = target, since = coalesce(trashed, @.now_ms())
        WHERE s.no = log AND s.state = 'm';
    -- It may run again, if its answer was lost.
    RETURN FOUND OR EXISTS (SELECT FROM @.session s WHERE s.no = log AND s.state = target);
END
$publish$;

-- Removes a session that was begun and is not to be published.
CREATE FUNCTION @.abandon(log bigint, claim uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $abandon$
BEGIN
    PERFORM @.commit_waits(false);
    DELETE FROM @.session s USING @.fence f
        WHERE s.no = log AND s.state = 'm' AND f.no = log AND f.token = claim;
    IF FOUND THEN
        DELETE FROM @.block b WHERE b.no = log;
    END IF;
END
$abandon$;

-- Moves a live session to the trash, or out of it; false if the claim does not count any longer. Its
-- 30 days there begin now, whatever clock the caller has.
CREATE FUNCTION @.move(log bigint, claim uuid, to_trash bool, waits bool) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $move$
DECLARE
    target "char" := CASE WHEN to_trash THEN 't' ELSE 'l' END;
BEGIN
    PERFORM @.commit_waits(waits);
    PERFORM FROM @.fence f WHERE f.no = log AND f.token = claim FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @.session s SET state = target, since = @.now_ms()
        WHERE s.no = log AND s.state = CASE WHEN to_trash THEN 'l' ELSE 't' END::"char";
    RETURN FOUND OR EXISTS (SELECT FROM @.session s WHERE s.no = log AND s.state = target);
END
$move$;

-- Keeps a copy of what is behind an offset of a log, before it is cut off.
CREATE FUNCTION @.keep_aside(log bigint, claim uuid, ending bigint) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $keep_aside$
BEGIN
    PERFORM FROM @.fence f WHERE f.no = log AND f.token = claim FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO @.torn (id, off, since, bytes)
        SELECT s.id, ending, @.now_ms(), (SELECT string_agg(
            substring(b.bytes FROM greatest(ending - b.off, 0)::int + 1), ''::bytea ORDER BY b.off)
            FROM @.block b WHERE b.no = log AND b.off + length(b.bytes) > ending)
        FROM @.session s WHERE s.no = log;
    RETURN true;
END
$keep_aside$;

-- Removes what is behind an offset of a log; false if the claim does not count any longer. Who may not
-- remove blocks may do so only while the session is being made.
CREATE FUNCTION @.cut(log bigint, claim uuid, ending bigint, waits bool) RETURNS bool STRICT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $cut$
DECLARE
    its_epoch bigint;
BEGIN
    IF NOT has_table_privilege(session_user, '@.block', 'DELETE')
        AND NOT EXISTS (SELECT FROM @.session s WHERE s.no = log AND s.state = 'm') THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied to cut a log';
    END IF;
    PERFORM @.commit_waits(waits);
    UPDATE @.fence f SET end_off = least(f.end_off, greatest(ending, 0))
        WHERE f.no = log AND f.token = claim RETURNING f.epoch INTO its_epoch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH gone AS (DELETE FROM @.block b
        WHERE b.no = log AND b.off + length(b.bytes) > ending RETURNING b.off, b.bytes)
    INSERT INTO @.block
        SELECT log, off, its_epoch, substring(bytes FOR (ending - off)::int) FROM gone
        WHERE off < ending;
    RETURN true;
END
$cut$;

-- Joins the blocks of a log that begin between two multiples of `place`, if these are more than `few`,
-- and no process has the log, or one that was gone for a day. Makes `most` blocks, and returns how
-- many it has made.
CREATE FUNCTION @.join_blocks(log bigint, place bigint, few bigint, most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $join_blocks$
DECLARE
    made bigint;
BEGIN
    WITH small AS MATERIALIZED (SELECT b.off / place AS at FROM @.block b WHERE b.no = log
            GROUP BY 1 HAVING count(*) > few ORDER BY 1 LIMIT most),
        held AS (UPDATE @.fence f SET epoch = f.epoch + 1, writer = NULL, token = NULL
            FROM @.session s
            WHERE f.no = log AND s.no = log AND @.may_use(s.owner) AND EXISTS (SELECT FROM small)
                AND (f.writer IS NULL OR NOT EXISTS (SELECT FROM @.writer w
                    WHERE w.id = f.writer AND w.seen > now() - interval '1 day'))
            RETURNING f.no),
        gone AS (DELETE FROM @.block b USING held, small
            WHERE b.no = held.no AND b.off / place = small.at
            RETURNING b.off, b.epoch, b.bytes),
        joined AS (INSERT INTO @.block
            SELECT log, min(off), max(epoch), string_agg(bytes, ''::bytea ORDER BY off)
            FROM gone GROUP BY off / place
            RETURNING 1)
    SELECT count(*) FROM joined INTO made;
    RETURN made;
END
$join_blocks$;

-- What earlier programs call.
CREATE OR REPLACE FUNCTION @.append(log bigint, claim bigint, start bigint, ending bigint, mode text,
    appended bytea, longest int) RETURNS bool LANGUAGE plpgsql AS $append$
BEGIN
    RAISE EXCEPTION 'the tables are those of a later rejoin: end this process and start a later one';
END
$append$;

-- Everybody may run a new function, unless that is taken from them.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @ FROM PUBLIC;

UPDATE @.store SET version = 4, min_writer = 4;
