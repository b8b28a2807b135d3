package nodes

// Forget forgets all nodes, as a list that is older than they are lets it.
func (r *Record) Forget() { r.keep(nil) }
