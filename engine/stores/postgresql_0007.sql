-- Each enqueued execution, and each change of one, is written to all indexes that it belongs to: they are most of what
-- that costs. The newest of all are those of each state, merged, and what no workflow belongs to is not looked for by
-- its workflow.
DROP INDEX flo.executions_by_creation;

DROP INDEX flo.executions_by_workflow;
CREATE INDEX executions_by_workflow ON flo.executions (workflow, created_at, id) WHERE workflow IS NOT NULL;

DROP INDEX flo.executions_by_workflow_and_end;
CREATE INDEX executions_by_workflow_and_end ON flo.executions (workflow, finished_at, id)
    WHERE workflow IS NOT NULL AND finished_at IS NOT NULL;
