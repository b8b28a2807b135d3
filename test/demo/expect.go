package main

import "fmt"

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func expectNot[T comparable](what string, got, not T) error {
	if got == not {
		return fmt.Errorf("%s is %v", what, got)
	}
	return nil
}
