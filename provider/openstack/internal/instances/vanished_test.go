package instances

import (
	"fmt"
	"testing"
)

func TestInstances_NewNodesWithoutAnEnd_FewAreKept(t *testing.T) {
	w := newWorld(t)
	i, now := w.Instances, w.clock.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := range 2 * mostKept {
		s := subject{name: fmt.Sprint("node-", n), id: fmt.Sprint("server-", n)}
		i.see(s, now)
		i.told[s.key()], i.results[s.name] = toldServer{at: now}, lookupResult{at: now}
		i.matched[s.name] = seenInstance{id: s.id, at: now}
	}
	for what, kept := range map[string]int{
		"instances": len(i.seen), "matched names": len(i.matched), "answers": len(i.told),
		"results": len(i.results),
	} {
		if kept > mostKept+1 {
			t.Errorf("%d %s are kept, want %d at most", kept, what, mostKept)
		}
	}
}
