package instances

import "time"

// purpose is what a question is asked for. Upstream asks for each in a way of its own, which tells how much more will be asked.
type purpose int

const (
	// status: whether an instance exists and runs. Asked of all nodes that are not ready, every 5 s.
	status purpose = iota
	// initialise: the metadata of a node that has just come.
	initialise
	// refresh: the metadata of a node that is long there. Asked of all nodes, one after the other, every 5 min.
	refresh
	// describe: one property of a node, without its addresses. Upstream asks so only where it knows no InstancesV2.
	describe
)

// The time after which what was asked for a purpose is not expected to be asked again.
const (
	soon      = 15 * time.Second
	nextRound = 10 * time.Minute
)

// needsPorts: addresses are of ports.
func (p purpose) needsPorts() bool { return p == initialise || p == refresh }

func (p purpose) memory() time.Duration {
	if p == refresh || p == describe {
		return nextRound
	}
	return soon
}

// few is how many servers are asked for directly, rather than by a list, whatever the list costs. A refresh never comes alone.
func (p purpose) few() int {
	if p == refresh {
		return 1
	}
	return 3
}

// demand remembers what was asked for. Upstream may ask one by one, with no two questions at a time: then nothing but the
// past says that a list is worth its price.
type demand map[purpose]map[string]time.Time

// note remembers that key is asked for.
func (d demand) note(p purpose, key string, now time.Time) {
	if d[p] == nil {
		d[p] = map[string]time.Time{}
	}
	d[p][key] = now
}

// expected is how many different servers are asked for about now. It forgets what is past.
func (d demand) expected(p purpose, now time.Time) int {
	for key, at := range d[p] {
		if now.Sub(at) > p.memory() {
			delete(d[p], key)
		}
	}
	return len(d[p])
}

// wants tells whether a server's addresses were asked for.
func (d demand) wants(key string) bool {
	_, refreshed := d[refresh][key]
	_, initialised := d[initialise][key]
	return refreshed || initialised
}
