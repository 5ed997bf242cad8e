-- Version 5: a session can go back to an earlier place, for which the header of its log gets another
-- format. Programs that know version 4 can go on: they do not write to such a log.

LOCK TABLE @.store;

-- Appends to a log as `append` does, and gives its header format 3 in the same transaction: `head` is
-- the beginning of the log with that. Of the header, nothing else can be changed than the digit with
-- which `head` ends, and the checksum.
CREATE FUNCTION @.append_rewind(log bigint, claim uuid, start bigint, ending bigint, waits bool,
    appended bytea, longest int, head bytea) RETURNS bool STRICT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $append_rewind$
DECLARE
    size int := length(head);
    marked bytea;
BEGIN
    IF NOT @.append(log, claim, start, ending, waits, appended, longest) THEN
        RETURN false;
    END IF;
    SELECT overlay(overlay(substring(b.bytes FOR size) PLACING substring(head FROM 9 FOR 8) FROM 9)
            PLACING '3'::bytea FROM size)
        INTO marked FROM @.block b WHERE b.no = log AND b.off = 0;
    IF marked IS DISTINCT FROM head
        OR substring(head FROM size - 20) <> '"payload":{"format":3'::bytea THEN
        RAISE check_violation USING MESSAGE = 'only the format of a header can change';
    END IF;
    UPDATE @.block b SET bytes = head || substring(b.bytes FROM size + 1)
        WHERE b.no = log AND b.off = 0;
    RETURN FOUND;
END
$append_rewind$;

REVOKE ALL ON FUNCTION @.append_rewind FROM PUBLIC;

UPDATE @.store SET version = 5;
