// Package cli has what the commands of fxccm share: the flags that select a cluster, the output
// formats, and errors of the command line.
package cli
