package instances

import "time"

// purpose is the reason of a question. It determines how many questions will follow.
type purpose int

const (
	// status: existence and power state, every 5 s for all nodes that are not ready.
	status purpose = iota
	// initialize: the metadata of a new node.
	initialize
	// refresh: the metadata of all nodes, one after the other, every 5 min.
	refresh
)

// These are the times for which a question counts as demand.
const (
	soon      = 15 * time.Second
	nextRound = 10 * time.Minute
)

// needsPorts: the question needs addresses.
func (p purpose) needsPorts() bool { return p == initialize || p == refresh }

func (p purpose) memory() time.Duration {
	if p == refresh {
		return nextRound
	}
	return soon
}

// few is the number of servers for which direct requests are used, no matter what a list costs. A
// refresh never comes alone.
func (p purpose) few() int {
	if p == refresh {
		return 1
	}
	return 3
}

// demand records recent questions. Controllers may ask sequentially, so only recent demand shows
// whether a list is cheaper.
type demand map[purpose]map[string]time.Time

func (d demand) note(p purpose, key string, now time.Time) {
	if d[p] == nil {
		d[p] = map[string]time.Time{}
	}
	d[p][key] = now
}

// expected is the number of different servers in recent questions. It drops expired ones.
func (d demand) expected(p purpose, now time.Time) int {
	for key, at := range d[p] {
		if now.Sub(at) > p.memory() {
			delete(d[p], key)
		}
	}
	return len(d[p])
}

// wants reports whether a recent question needs the server's addresses.
func (d demand) wants(key string) bool {
	_, refreshed := d[refresh][key]
	_, initialized := d[initialize][key]
	return refreshed || initialized
}
