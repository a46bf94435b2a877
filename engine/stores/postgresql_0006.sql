-- Environments and connections: sealed values that somebody set, and which environment an execution runs in.
-- environment_chosen: who started it said so, whatever documents say.

ALTER TABLE flo.executions ADD COLUMN environment text COLLATE "C";
ALTER TABLE flo.executions ADD COLUMN environment_chosen boolean NOT NULL DEFAULT false;

CREATE TABLE flo.settings (
    kind text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    sealed text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (kind, owner, name)
);
