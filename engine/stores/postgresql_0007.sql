-- Each enqueued execution, and each change of one, is written to all indexes that it belongs to: they are most of what
-- that costs. The newest of all are those of each state, merged, and what belongs to no workflow is not looked for by its
-- workflow. What else lists ask for is in the index of states: one may have many that are parts, or of other queues.
DROP INDEX flo.executions_by_creation;

DROP INDEX flo.executions_by_workflow;
CREATE INDEX executions_by_workflow ON flo.executions (workflow, created_at, id) WHERE workflow IS NOT NULL;

DROP INDEX flo.executions_by_workflow_and_end;
CREATE INDEX executions_by_workflow_and_end ON flo.executions (workflow, finished_at, id)
    WHERE workflow IS NOT NULL AND finished_at IS NOT NULL;

DROP INDEX flo.executions_by_state;
CREATE INDEX executions_by_state ON flo.executions (state, created_at, id) INCLUDE (parent_id, queue);
