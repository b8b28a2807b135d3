package instances

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSeveral is returned for a node whose name several servers have.
var ErrSeveral = errors.New("several servers have the name of node")

// namedExactly drops servers that the name filter returned although their names differ.
func namedExactly(servers []*server, name string) []*server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *server) bool {
		return s.Name != name || !s.exists()
	})
}

// onlyOne is an error that names the servers if there are several.
func onlyOne(name string, servers []*server) error {
	if len(servers) == 1 {
		return nil
	}
	ids := make([]string, 0, len(servers))
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return fmt.Errorf("%w %s: %s; rename them, or set --provider-id of the kubelet",
		ErrSeveral, name, strings.Join(ids, ", "))
}
