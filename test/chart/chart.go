// Package chart tests the Helm chart and the Kustomize base of fxccm: it is a module of its own,
// because it links Helm.
package chart
