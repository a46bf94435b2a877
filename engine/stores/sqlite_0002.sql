-- Executions become jobs: they come due, are held by a token, are tried again, wait, and start others.
-- queue is '' where no queue delivers an execution: who made it runs it, or its parent does.
-- due_at is when somebody may take it: run_at while it waits, the end of the lease while it runs, the end of its wait
-- while it is suspended; NULL once it has ended, and while it waits for an answer without an end.

ALTER TABLE executions DROP COLUMN lease_until;
ALTER TABLE executions DROP COLUMN cancel_requested_at;
ALTER TABLE executions DROP COLUMN line_count;
ALTER TABLE executions ADD COLUMN handler TEXT;
ALTER TABLE executions ADD COLUMN due_at TEXT;
ALTER TABLE executions ADD COLUMN worker TEXT;
ALTER TABLE executions ADD COLUMN claimed_at TEXT;
ALTER TABLE executions ADD COLUMN concurrency_limit INTEGER;
ALTER TABLE executions ADD COLUMN request_identity TEXT;
ALTER TABLE executions ADD COLUMN parent_path TEXT;
ALTER TABLE executions ADD COLUMN root_id TEXT;
ALTER TABLE executions ADD COLUMN depth INTEGER NOT NULL DEFAULT 1;
ALTER TABLE executions ADD COLUMN dead_reason TEXT;
ALTER TABLE executions ADD COLUMN replay_of TEXT;
ALTER TABLE executions ADD COLUMN replayed_as TEXT;
ALTER TABLE executions ADD COLUMN variables TEXT;
ALTER TABLE executions ADD COLUMN tolerated INTEGER NOT NULL DEFAULT 0;

-- All that is there was run by who made it; what still looks alive was left behind.
UPDATE executions SET queue = '', root_id = id, run_at = created_at;
UPDATE executions SET due_at = created_at, worker = 'unknown' WHERE finished_at IS NULL;

ALTER TABLE execution_steps ADD COLUMN notices TEXT;
ALTER TABLE execution_steps ADD COLUMN execution_attempt INTEGER NOT NULL DEFAULT 1;

-- Gives a claim what is unfinished in its order, past any number of finished ones. The last column lets it pass by what
-- is not due without a look at its row.
CREATE INDEX executions_to_claim ON executions (queue, priority DESC, run_at, created_at, id, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX executions_next_due ON executions (queue, due_at) WHERE finished_at IS NULL;
CREATE INDEX executions_running ON executions (queue, due_at) WHERE state = 'running';
CREATE INDEX executions_poisoned ON executions (due_at) WHERE state = 'running' AND expiries >= 5;
CREATE INDEX executions_by_deadline ON executions (deadline) WHERE deadline IS NOT NULL AND finished_at IS NULL;
CREATE INDEX executions_by_concurrency_key ON executions (concurrency_key, claimed_at)
    WHERE concurrency_key IS NOT NULL;
CREATE INDEX executions_unfinished_by_key ON executions (concurrency_key, state, queue)
    WHERE concurrency_key IS NOT NULL AND finished_at IS NULL;
CREATE INDEX executions_by_parent ON executions (parent_id, parent_path) WHERE parent_id IS NOT NULL;
CREATE INDEX executions_by_end ON executions (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX executions_by_workflow_and_end ON executions (workflow, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX executions_dead ON executions (queue, finished_at) WHERE dead_reason IS NOT NULL;

-- keyed: an execution with a concurrency key was enqueued here once, so that claims have to count.
CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    keyed INTEGER NOT NULL DEFAULT 0,
    max_running INTEGER,
    max_running_per_key INTEGER,
    starts_per_key INTEGER,
    per_key_seconds REAL
) WITHOUT ROWID;

-- The claims of an execution that did not end it; the last one stands in its row.
CREATE TABLE execution_attempts (
    execution_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    worker TEXT,
    claimed_at TEXT,
    ended_at TEXT NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (execution_id, fence)
) WITHOUT ROWID;

-- What steps under way have written to tables, so that they do not write it again.
CREATE TABLE execution_effects (
    execution_id TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (execution_id, path, name, number)
) WITHOUT ROWID;

-- taken: the step has its answer.
CREATE TABLE execution_waits (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    path TEXT NOT NULL,
    root_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    until TEXT,
    details TEXT NOT NULL,
    answer TEXT,
    taken INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    UNIQUE (execution_id, path)
);

CREATE INDEX execution_waits_by_root ON execution_waits (root_id) WHERE taken = false;
CREATE INDEX execution_waits_for_end ON execution_waits (name) WHERE kind = 'execution' AND taken = false;

-- taken_by: the path of the step that has it.
CREATE TABLE execution_signals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    at TEXT NOT NULL,
    taken_by TEXT
);

CREATE INDEX execution_signals_by_name ON execution_signals (execution_id, name, seq);
