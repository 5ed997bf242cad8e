-- The tables of a store, version 1. `@` stands for the schema; `docs/postgres.md` describes them.

CREATE SCHEMA IF NOT EXISTS @;

-- One row: the version of these tables, and the least versions of programs that may work with them.
CREATE TABLE @.store (
    version int NOT NULL,
    min_reader int NOT NULL,
    min_writer int NOT NULL
);

-- `state` is 'm' while a session is being made, 'l' when it is live, 't' in the trash; `since` is
-- when it came into that state, in milliseconds. `summary` is what lists show of the first `scanned`
-- bytes of the log; the columns after it repeat parts of it for the indexes.
CREATE TABLE @.session (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    state "char" NOT NULL,
    since bigint NOT NULL,
    scanned bigint NOT NULL DEFAULT 0,
    summary text,
    cwd text,
    source text,
    known_as text,
    updated_at text COLLATE "C",
    prompted_at text COLLATE "C",
    restored_at text COLLATE "C",
    archived bool NOT NULL DEFAULT false,
    prompts bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX session_live ON @.session (id) WHERE state = 'l';
CREATE INDEX session_since ON @.session (state, since);
CREATE INDEX session_id ON @.session (id);
CREATE INDEX session_active ON @.session (updated_at DESC, id DESC)
    WHERE state = 'l' AND updated_at IS NOT NULL;
CREATE INDEX session_active_in ON @.session (cwd, updated_at DESC, id DESC)
    WHERE state = 'l' AND updated_at IS NOT NULL;
CREATE INDEX session_prompted ON @.session (prompted_at DESC, id DESC)
    WHERE state = 'l' AND updated_at IS NOT NULL;
CREATE INDEX session_known_as ON @.session (known_as) WHERE known_as IS NOT NULL;
CREATE INDEX session_behind ON @.session (no) WHERE state = 'l' AND summary IS NULL;

-- One row for each process that writes.
CREATE TABLE @.writer (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid bigint NOT NULL,
    boot text NOT NULL,
    client text,
    ending bool NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Who may append to a log, and where it ends. Each append updates its row, and writes nothing if
-- the epoch is not that of the claim.
CREATE TABLE @.fence (
    no bigint PRIMARY KEY REFERENCES @.session ON DELETE CASCADE,
    epoch bigint NOT NULL,
    end_off bigint NOT NULL,
    writer uuid,
    changed bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX fence_writer ON @.fence (writer) WHERE writer IS NOT NULL;

-- The logs: whole lines, which never change. A session's blocks in their order are its file.
CREATE TABLE @.block (
    no bigint NOT NULL,
    off bigint NOT NULL,
    epoch bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (no, off)
);

-- What recovery cut off the end of a log that was copied here.
CREATE TABLE @.torn (
    id uuid NOT NULL,
    off bigint NOT NULL,
    since bigint NOT NULL,
    bytes bytea NOT NULL
);

-- The ids that agents have for sessions, which outlive the sessions.
CREATE TABLE @.agent_id (
    number bigint GENERATED ALWAYS AS IDENTITY,
    agent text NOT NULL,
    id text NOT NULL,
    session uuid NOT NULL,
    PRIMARY KEY (agent, id, session)
);
CREATE INDEX agent_id_of ON @.agent_id (session);
CREATE INDEX agent_id_like_ours ON @.agent_id (id) WHERE id LIKE 'sess\_%';

-- Small texts that may be lost.
CREATE TABLE @.note (name text PRIMARY KEY, text text NOT NULL);

INSERT INTO @.store VALUES (1, 1, 1);
