package instances

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSeveral is returned for a node whose name is that of several servers: which one it is cannot be told.
var ErrSeveral = errors.New("several servers have the name of the node")

// namedExactly drops the servers that a filter let pass for another reason than their name.
func namedExactly(servers []*server, name string) []*server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s.Name != name || !s.exists() })
}

// onlyOne is the one server of a name.
func onlyOne(name string, servers []*server) (*server, error) {
	if len(servers) == 1 {
		return servers[0], nil
	}
	ids := make([]string, 0, len(servers))
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return nil, fmt.Errorf("%w %s: %s; give them other names, or the kubelet a provider ID", ErrSeveral, name, strings.Join(ids, ", "))
}
