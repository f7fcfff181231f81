-- Statements of `apply_schema.py`.

-- name: create_database
-- Where do all tables lie?
CREATE DATABASE IF NOT EXISTS pharos;

-- name: create_applied_schema
-- Which schema files were applied, and when?
CREATE TABLE IF NOT EXISTS pharos.applied_schema (name String, applied_at DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY name;

-- name: read_applied
-- Which schema files were applied?
SELECT name FROM pharos.applied_schema;

-- name: insert_applied
-- Note that a schema file was applied.
INSERT INTO pharos.applied_schema (name) SELECT {name:String};
