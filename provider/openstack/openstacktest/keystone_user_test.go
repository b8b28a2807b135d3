package openstacktest

// made is the object in an answer that must be a success.
func (e exchange) made(key string) map[string]any {
	e.t.Helper()
	var body map[string]map[string]any
	e.into(&body)
	if e.status/100 != 2 {
		e.t.Fatalf("%d %s", e.status, e.body)
	}
	return body[key]
}
