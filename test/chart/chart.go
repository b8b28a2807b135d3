// Package chart tests the Helm chart and the Kustomize base of fxccm. It is a separate module,
// because it links Helm.
package chart
