"""What a workflow says: documents, expressions, templates, conditions."""
