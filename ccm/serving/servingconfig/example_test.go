package servingconfig_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// A host without flags fills in the configuration of the secure port, and validates it.
func ExampleDefault() {
	cfg := servingconfig.Default()
	cfg.BindAddress = "127.0.0.1"
	cfg.CertFile = "/etc/fxccm/tls.crt"
	for _, err := range cfg.Validate(field.NewPath("serving")) {
		fmt.Println(err.Field, err.Detail)
	}
	cfg.KeyFile = "/etc/fxccm/tls.key"
	fmt.Println(cfg.SecurePort, cfg.Validate(field.NewPath("serving")))
	// Output:
	// serving.certFile certFile and keyFile must be given together
	// 10258 []
}
