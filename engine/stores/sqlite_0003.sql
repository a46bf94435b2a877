-- Triggers: what starts workflows by itself, and what became of each slot.

-- declared is NULL where no document has the trigger, else what 'enabled' of the document said last: a switch that a
-- person threw stays until that changes. timing is what of config says when a schedule fires: while it stays the same,
-- anchor and cursor do. states is what 'awaits' has to end as, a list with a comma before and behind.
CREATE TABLE triggers (
    id TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    config TEXT NOT NULL,
    timing TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    declared INTEGER,
    revision INTEGER NOT NULL DEFAULT 1,
    anchor TEXT NOT NULL,
    cursor TEXT NOT NULL,
    look_at TEXT,
    awaits TEXT,
    states TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (workflow_id, name)
) WITHOUT ROWID;

CREATE INDEX triggers_to_look_at ON triggers (look_at) WHERE kind = 'schedule' AND enabled;
CREATE INDEX triggers_by_awaited ON triggers (awaits) WHERE kind = 'event' AND enabled;

-- One row a slot: the key is what lets any number of schedulers fire it once.
-- subject and state are of the execution whose end is a slot of an event trigger.
CREATE TABLE firings (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger_id TEXT NOT NULL,
    slot TEXT NOT NULL,
    outcome TEXT NOT NULL,
    at TEXT NOT NULL,
    scheduled_at TEXT,
    execution_id TEXT,
    reason TEXT,
    error TEXT,
    passed INTEGER,
    since TEXT,
    subject TEXT,
    state TEXT,
    UNIQUE (trigger_id, slot)
);

CREATE INDEX firings_of_trigger ON firings (trigger_id, seq);
CREATE INDEX firings_by_time ON firings (at);
CREATE INDEX firings_due ON firings (seq) WHERE outcome = 'due';

ALTER TABLE executions ADD COLUMN trigger_id TEXT;

CREATE INDEX executions_of_trigger ON executions (trigger_id) WHERE trigger_id IS NOT NULL AND finished_at IS NULL;
