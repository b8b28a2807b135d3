package metrics

import "github.com/prometheus/client_golang/prometheus"

// Unwanted as Params.Registerer means that the Manager has no metrics on purpose. The Manager uses
// no registerer and has no warning.
type Unwanted struct{ prometheus.Registerer }
