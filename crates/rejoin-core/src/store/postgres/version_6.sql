-- Version 6: lists distinguish equal titles of a folder. Programs that know version 5 can go on: what
-- they keep of a session has the title of before, or none, until a later program keeps it.

LOCK TABLE @.store;

-- Repeats a part of the summary for the index, as the columns beside it do.
ALTER TABLE @.session ADD COLUMN title text COLLATE "C";
-- Texts of a database cannot have the character U+0000, and nor can such a summary be read as JSON.
UPDATE @.session SET title = summary::json->>'title'
    WHERE summary IS NOT NULL AND position('\u0000' IN summary) = 0;
CREATE INDEX session_titled ON @.session (title, cwd) WHERE state = 'l' AND updated_at IS NOT NULL;

UPDATE @.store SET version = 6;
