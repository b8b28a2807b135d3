package main

// Metrics of work queues, leader election, informers and API clients. Each takes a hook that a
// process has only once, so the choice is the program's and not the library's.
import (
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)
