-- Version 2: whose sessions are whose, and words for searches. Programs that know version 1 only can
-- go on.

LOCK TABLE @.store;

-- `owner` is the role that made a session. The columns behind it say how far its words were read: the
-- log's length when it was last read to its end, from where to go on, and the pieces before that.
ALTER TABLE @.session
    ADD COLUMN owner name NOT NULL DEFAULT session_user,
    ADD COLUMN text_len bigint NOT NULL DEFAULT -1,
    ADD COLUMN text_from bigint NOT NULL DEFAULT 0,
    ADD COLUMN text_pieces bigint NOT NULL DEFAULT 0;
CREATE INDEX session_unread ON @.session (updated_at DESC, id DESC)
    WHERE state = 'l' AND updated_at IS NOT NULL AND text_len <> scanned;

-- The words of a piece of a log, which begins at `start`: those of each field apart, in several parts
-- if there are many. They are made by rejoin, not by a configuration of the database.
CREATE TABLE @.words (
    no bigint NOT NULL REFERENCES @.session ON DELETE CASCADE,
    piece bigint NOT NULL,
    field smallint NOT NULL,
    part int NOT NULL,
    start bigint NOT NULL,
    vec tsvector NOT NULL,
    PRIMARY KEY (no, piece, field, part)
);
CREATE INDEX words_vec ON @.words USING gin (vec);

-- A role sees what it has made, and what the roles have made of which it is a member. It counts as
-- whom it has logged in. The owner of the tables sees everything.
ALTER TABLE @.session ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.session USING (owner = session_user OR EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = owner AND pg_has_role(session_user, r.oid, 'member')));
ALTER TABLE @.fence ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.fence
    USING (EXISTS (SELECT FROM @.session s WHERE s.no = fence.no)) WITH CHECK (true);
ALTER TABLE @.block ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.block USING (EXISTS (SELECT FROM @.session s WHERE s.no = block.no));
ALTER TABLE @.words ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.words USING (EXISTS (SELECT FROM @.session s WHERE s.no = words.no));
ALTER TABLE @.torn ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.torn USING (EXISTS (SELECT FROM @.session s WHERE s.id = torn.id));
ALTER TABLE @.agent_id ENABLE ROW LEVEL SECURITY;
CREATE POLICY team ON @.agent_id
    USING (EXISTS (SELECT FROM @.session s WHERE s.id = agent_id.session));

UPDATE @.store SET version = 2;
