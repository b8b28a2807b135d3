package signals

import (
	"os"
	"os/signal" // want `import: os/signal takes the signals`

	"k8s.io/apiserver/pkg/server"
)

func Signals(c chan os.Signal) {
	signal.Notify(c, os.Interrupt) // want `signal: os/signal.Notify takes the signals`
	server.SetupSignalHandler()    // want `signal: k8s.io/apiserver/pkg/server.SetupSignalHandler`
}
