-- A claim that is lost fails its transaction on the server, so that a commit can be sent before anybody has heard whether
-- the claim stands. FL003, with the execution as the message, and who has it now as the detail.
CREATE FUNCTION flo.claim_is_lost(execution_id text, state text, worker text, fence bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'FL003', MESSAGE = execution_id,
        DETAIL = json_build_object('state', state, 'worker', worker, 'fence', fence)::text;
END
$$;
