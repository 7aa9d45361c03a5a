//! `$jsonSchema`: parsing a schema and checking documents against it.
//!
//! The matcher uses exactly two functions: `Schema::parse(schema: RawDocument, &Environment) ->
//! Result<Schema, QueryError>` and `Schema::matches(&self, document: RawDocument) -> Result<bool, QueryError>`.
