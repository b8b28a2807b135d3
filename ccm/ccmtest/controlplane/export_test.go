package controlplane

// OpenAuditLog reads the audit log at path.
func OpenAuditLog(path string) *AuditLog { return &AuditLog{path: path} }
