// Package keystone is the simulated Keystone: users, projects, tokens and the catalog.
package keystone
