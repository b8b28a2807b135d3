package imports

import (
	_ "embed"          // want `import: embed is imported for what it does`
	_ "expvar"         // want `import: expvar serves on http.DefaultServeMux`
	_ "net/http/pprof" // want `import: net/http/pprof serves on http.DefaultServeMux`

	_ "k8s.io/controller-manager/pkg/features/register" // want `import: k8s.io/controller-manager/pkg/features/register is imported for what it does`
)
