module github.com/fxccm/fxccm/tools/envtest

go 1.26.0

toolchain go1.26.8

require (
	github.com/go-logr/logr v1.4.4
	sigs.k8s.io/controller-runtime/tools/setup-envtest v0.25.1
)

require (
	github.com/spf13/afero v1.12.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/text v0.40.0 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
