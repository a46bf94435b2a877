-- Executions become jobs: they come due, are held by a token, are tried again, wait, and start others.
-- queue is '' where no queue delivers an execution: who made it runs it, or its parent does.
-- due_at is when somebody may take it: run_at while it waits, the end of the lease while it runs, the end of its wait
-- while it is suspended; NULL once it has ended, and while it waits for an answer without an end.

ALTER TABLE flo.executions
    DROP COLUMN lease_until,
    DROP COLUMN cancel_requested_at,
    DROP COLUMN line_count,
    ADD COLUMN handler text COLLATE "C",
    ADD COLUMN due_at timestamptz,
    ADD COLUMN worker text COLLATE "C",
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN concurrency_limit integer,
    ADD COLUMN request_identity text COLLATE "C",
    ADD COLUMN parent_path text COLLATE "C",
    ADD COLUMN root_id text COLLATE "C",
    ADD COLUMN depth integer NOT NULL DEFAULT 1,
    ADD COLUMN dead_reason text COLLATE "C",
    ADD COLUMN replay_of text COLLATE "C",
    ADD COLUMN replayed_as text COLLATE "C",
    ADD COLUMN variables json,
    ADD COLUMN tolerated integer NOT NULL DEFAULT 0;

-- All that is there was run by who made it; what still looks alive was left behind.
UPDATE flo.executions SET queue = '', root_id = id, run_at = created_at,
    due_at = CASE WHEN finished_at IS NULL THEN created_at END,
    worker = CASE WHEN finished_at IS NULL THEN 'unknown' END;

ALTER TABLE flo.execution_steps
    ADD COLUMN notices json,
    ADD COLUMN execution_attempt integer NOT NULL DEFAULT 1;

-- Gives a claim what is unfinished in its order, past any number of finished ones. The last column lets it pass by what
-- is not due without a look at its row.
CREATE INDEX executions_to_claim ON flo.executions (queue, priority DESC, run_at, created_at, id, due_at)
    WHERE due_at IS NOT NULL;
-- Of other rows than the one above says, so that no claim can take it: where the planner thinks that little is due, it
-- would collect and sort all of it.
CREATE INDEX executions_next_due ON flo.executions (queue, due_at) WHERE finished_at IS NULL;
CREATE INDEX executions_running ON flo.executions (queue, due_at) WHERE state = 'running';
CREATE INDEX executions_poisoned ON flo.executions (due_at) WHERE state = 'running' AND expiries >= 5;
CREATE INDEX executions_by_deadline ON flo.executions (deadline) WHERE deadline IS NOT NULL AND finished_at IS NULL;
CREATE INDEX executions_by_concurrency_key ON flo.executions (concurrency_key, claimed_at)
    WHERE concurrency_key IS NOT NULL;
CREATE INDEX executions_unfinished_by_key ON flo.executions (concurrency_key, state, queue)
    WHERE concurrency_key IS NOT NULL AND finished_at IS NULL;
CREATE INDEX executions_by_parent ON flo.executions (parent_id, parent_path) WHERE parent_id IS NOT NULL;
CREATE INDEX executions_by_end ON flo.executions (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX executions_by_workflow_and_end ON flo.executions (workflow, finished_at, id)
    WHERE finished_at IS NOT NULL;
CREATE INDEX executions_dead ON flo.executions (queue, finished_at) WHERE dead_reason IS NOT NULL;

-- keyed: an execution with a concurrency key was enqueued here once, so that claims have to count.
CREATE TABLE flo.queues (
    name text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    keyed boolean NOT NULL DEFAULT false,
    max_running integer,
    max_running_per_key integer,
    starts_per_key integer,
    per_key_seconds double precision
);

-- The claims of an execution that did not end it; the last one stands in its row.
CREATE TABLE flo.execution_attempts (
    execution_id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    worker text,
    claimed_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error json,
    PRIMARY KEY (execution_id, fence)
);

-- What steps under way have written to tables, so that they do not write it again.
CREATE TABLE flo.execution_effects (
    execution_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    result json NOT NULL,
    PRIMARY KEY (execution_id, path, name, number)
);

-- taken: the step has its answer.
CREATE TABLE flo.execution_waits (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text COLLATE "C" NOT NULL,
    until timestamptz,
    details json NOT NULL,
    answer json,
    taken boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    UNIQUE (execution_id, path)
);

CREATE INDEX execution_waits_by_root ON flo.execution_waits (root_id) WHERE NOT taken;
CREATE INDEX execution_waits_for_end ON flo.execution_waits (name) WHERE kind = 'execution' AND NOT taken;

-- taken_by: the path of the step that has it.
CREATE TABLE flo.execution_signals (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    payload json NOT NULL,
    at timestamptz NOT NULL,
    taken_by text COLLATE "C"
);

CREATE INDEX execution_signals_by_name ON flo.execution_signals (execution_id, name, seq);
