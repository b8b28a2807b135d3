package server

func SetupSignalHandler() <-chan struct{} { return nil }
