-- Rows of JSON in named tables, and workflows with their executions.
-- Instants are text, YYYY-MM-DDTHH:MM:SS.ffffffZ, so that text order is time order.

-- status is the top-level status of the value, where that is text: its first 200 characters. Statements keep it.
CREATE TABLE rows (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    status TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    expires_at TEXT,
    claim_count INTEGER NOT NULL DEFAULT 0,
    UNIQUE (table_name, key)
);

-- Gives a claim its rows in the order of their creation, past any number of finished ones.
CREATE INDEX rows_by_status ON rows (table_name, status, created_at, seq);

-- The same in the order of insertion, which is what a claim without an order asks for. Every index ends with seq.
CREATE INDEX rows_in_status ON rows (table_name, status);

-- Pages of a whole table, in either order. No update touches these two.
CREATE INDEX rows_in_table ON rows (table_name);
CREATE INDEX rows_by_creation ON rows (table_name, created_at);

CREATE INDEX rows_by_expiry ON rows (expires_at) WHERE expires_at IS NOT NULL;

-- Documents by their SHA-256: any number of executions share one copy.
CREATE TABLE definitions (
    digest TEXT PRIMARY KEY,
    document TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE workflows (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    name TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (tenant, name)
) WITHOUT ROWID;

CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (workflow_id, version)
) WITHOUT ROWID;

CREATE TABLE executions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    workflow TEXT,
    version INTEGER,
    digest TEXT NOT NULL,
    input TEXT NOT NULL,
    state TEXT NOT NULL,
    output TEXT,
    error TEXT,
    trigger_kind TEXT NOT NULL DEFAULT 'manual',
    queue TEXT NOT NULL DEFAULT 'default',
    priority INTEGER NOT NULL DEFAULT 0,
    run_at TEXT,
    attempt INTEGER NOT NULL DEFAULT 1,
    deliveries INTEGER NOT NULL DEFAULT 0,
    expiries INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT,
    lease_token TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    deadline TEXT,
    idempotency_key TEXT,
    concurrency_key TEXT,
    parent_id TEXT,
    cancel_requested_at TEXT,
    line_count INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT
);

CREATE UNIQUE INDEX executions_by_idempotency_key ON executions (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE INDEX executions_by_creation ON executions (created_at, id);

CREATE INDEX executions_by_state ON executions (state, created_at, id);

CREATE INDEX executions_by_workflow ON executions (workflow, created_at, id);

CREATE TABLE execution_steps (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    path TEXT NOT NULL,
    step_id TEXT NOT NULL,
    step_type TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at TEXT NOT NULL,
    duration_ms REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 1,
    output TEXT,
    error TEXT,
    loop_path TEXT,
    loop_index INTEGER,
    UNIQUE (execution_id, path)
);

CREATE INDEX execution_steps_by_order ON execution_steps (execution_id, seq);

CREATE INDEX execution_steps_by_iteration ON execution_steps (execution_id, loop_path, loop_index)
    WHERE loop_path IS NOT NULL;

-- Lines are numbered from 1 in each execution; executions.line_count hands the numbers out.
CREATE TABLE execution_lines (
    execution_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    level TEXT NOT NULL,
    step TEXT,
    message TEXT NOT NULL,
    data TEXT,
    PRIMARY KEY (execution_id, number)
) WITHOUT ROWID;
