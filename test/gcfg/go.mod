module github.com/fxccm/fxccm/test/gcfg

go 1.26.0

toolchain go1.26.8

replace github.com/fxccm/fxccm => ../..

require (
	github.com/fxccm/fxccm v0.0.0-00010101000000-000000000000
	gopkg.in/gcfg.v1 v1.2.3
)

require (
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	gopkg.in/warnings.v0 v0.1.2 // indirect
	k8s.io/apimachinery v0.37.2 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/utils v0.0.0-20261023123148-ca04ba58ecab // indirect
)
