//! Update documents and pipelines applied to raw documents.
