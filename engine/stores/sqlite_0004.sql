-- Environments and connections: sealed values that somebody set, and which environment an execution runs in.
-- environment_chosen: who started it said so, whatever documents say.

ALTER TABLE executions ADD COLUMN environment TEXT;
ALTER TABLE executions ADD COLUMN environment_chosen INTEGER NOT NULL DEFAULT 0;

CREATE TABLE settings (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    sealed TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (kind, owner, name)
) WITHOUT ROWID;
