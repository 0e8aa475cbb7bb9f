-- Transactions that were taken over are looked up by where they came from.
CREATE INDEX tx_origin ON tx (origin_store, origin_number) WHERE origin_store IS NOT NULL;
