package instances

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSeveral is returned for a node whose name several servers have.
var ErrSeveral = errors.New("several servers have the name of node")

// named drops servers that the name filter returned although their names differ in more than case.
func named(servers []*server, name string) []*server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *server) bool {
		return nameKey(s.Name) != nameKey(name) || !s.exists()
	})
}

// best narrows servers whose names differ from the node's at most in case: to those with its exact
// name, if there are any, and then to the one with its system UUID. A node writes its UUID itself,
// so the UUID decides only between servers of one name.
func best(servers []*server, name, systemUUID string) []*server {
	isExact := func(s *server) bool { return s.Name == name }
	if slices.ContainsFunc(servers, isExact) {
		servers = slices.DeleteFunc(slices.Clone(servers), func(s *server) bool {
			return !isExact(s)
		})
	}
	at := slices.IndexFunc(servers, func(s *server) bool { return s.ID == systemUUID })
	if at < 0 {
		return servers
	}
	return servers[at : at+1]
}

// isDerived reports whether a node may have its name from the server with its system UUID: Nova
// makes a host name of the server's name, and one of the two may have a domain.
func isDerived(node string, of *server) bool {
	node, server := strings.ToLower(node), strings.ToLower(of.Name)
	dashed := strings.NewReplacer(".", "-", "_", "-", " ", "-")
	// If nothing of the name is left, Nova takes the ID (nova/compute/api.py, _default_host_name).
	host := cmp.Or(hostName(server), "server-"+strings.ToLower(of.ID))
	return dashed.Replace(node) == dashed.Replace(server) || dashed.Replace(node) == host ||
		strings.HasPrefix(node, server+".") || strings.HasPrefix(server, node+".") ||
		strings.HasPrefix(node, host+".")
}

// hostName returns the host name that Nova makes of a server's name in lower case: the first 63
// characters, without those that a host name cannot have (nova/utils.py, sanitize_hostname).
func hostName(server string) string {
	const longest = 63
	runes := []rune(server)
	host := strings.Map(func(c rune) rune {
		switch {
		case c == ' ' || c == '_' || c == '.':
			return '-'
		case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			return c
		}
		return -1
	}, string(runes[:min(len(runes), longest)]))
	return strings.Trim(host, "-")
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
