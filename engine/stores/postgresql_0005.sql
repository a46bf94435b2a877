-- Triggers: what starts workflows by itself, and what became of each slot.

-- declared is NULL where no document has the trigger, else what 'enabled' of the document said last: a switch that a
-- person threw stays until that changes. timing is what of config says when a schedule fires: while it stays the same,
-- anchor and cursor do. states is what 'awaits' has to end as, a list with a comma before and behind.
CREATE TABLE flo.triggers (
    id text COLLATE "C" PRIMARY KEY,
    workflow_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    config json NOT NULL,
    timing text NOT NULL,
    enabled boolean NOT NULL,
    declared boolean,
    revision bigint NOT NULL DEFAULT 1,
    anchor timestamptz NOT NULL,
    cursor timestamptz NOT NULL,
    look_at timestamptz,
    awaits text COLLATE "C",
    states text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (workflow_id, name)
);

CREATE INDEX triggers_to_look_at ON flo.triggers (look_at) WHERE kind = 'schedule' AND enabled;
CREATE INDEX triggers_by_awaited ON flo.triggers (awaits) WHERE kind = 'event' AND enabled;

-- One row a slot: the key is what lets any number of schedulers fire it once.
-- subject and state are of the execution whose end is a slot of an event trigger.
CREATE TABLE flo.firings (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger_id text COLLATE "C" NOT NULL,
    slot text COLLATE "C" NOT NULL,
    outcome text NOT NULL,
    at timestamptz NOT NULL,
    scheduled_at timestamptz,
    execution_id text COLLATE "C",
    reason text,
    error json,
    passed bigint,
    since timestamptz,
    subject text COLLATE "C",
    state text,
    UNIQUE (trigger_id, slot)
);

CREATE INDEX firings_of_trigger ON flo.firings (trigger_id, seq);
CREATE INDEX firings_by_time ON flo.firings (at);
CREATE INDEX firings_due ON flo.firings (seq) WHERE outcome = 'due';

ALTER TABLE flo.executions ADD COLUMN trigger_id text COLLATE "C";

CREATE INDEX executions_of_trigger ON flo.executions (trigger_id) WHERE trigger_id IS NOT NULL AND finished_at IS NULL;
