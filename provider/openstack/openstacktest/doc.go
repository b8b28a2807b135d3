// Package openstacktest is an OpenStack cloud in memory for tests, in the manner of net/http/httptest: Keystone, Nova, Neutron,
// Octavia and Barbican, as far as a cloud controller manager uses them.
package openstacktest
