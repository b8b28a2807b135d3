package main

// These imports register metrics of work queues, leader election, informers and API clients. Each
// uses a hook that exists once in a process, so the program decides, not the library.
import (
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)
