package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Hash is equal for two desired states if and only if the contents of the load balancer and the
// security group are equal, in one version of fxccm. It leaves out the load balancer itself and its
// floating IP: each reconcile compares them, because that costs no request.
func (d State) Hash() string {
	d.LoadBalancer, d.FloatingIP = octavia.LoadBalancer{}, nil
	hash := sha256.New()
	// State holds plain values, so neither the encoding nor the hash fails. Maps are encoded in the
	// order of their keys.
	_ = json.NewEncoder(hash).Encode(d)
	return hex.EncodeToString(hash.Sum(nil))
}
