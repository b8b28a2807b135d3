package main

import (
	"context"
	"fmt"
	"os"
)

// keyless signs with the identity of the workflow, and not with a key.
const keyless = "keyless"

// signer signs artifacts in a registry with cosign, which stores the signature beside the artifact.
// With a key it also stores a signed provenance; the workflow makes its own.
type signer struct {
	program string
	key     string // a file, keyless, or "" for no signature
}

func (s signer) sign(ctx context.Context, of artifact) error {
	if s.key == "" {
		return nil
	}
	digest, err := of.digest()
	if err != nil {
		return err
	}
	if s.key == keyless {
		_, err = command(ctx, ".", nil, s.program, "sign", "--yes", digest.Name())
		return err
	}
	predicate, err := os.CreateTemp("", "fxccm-provenance-")
	if err != nil {
		return err
	}
	defer os.Remove(predicate.Name())
	_, err = predicate.Write(of.provenance)
	if closeErr := predicate.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	for _, do := range [][]string{
		{"sign"},
		{"attest", "--type", provenanceType, "--predicate", predicate.Name()},
	} {
		// A key needs neither the public log of signatures nor its configuration.
		args := append(do, "--yes", "--key", s.key, "--tlog-upload=false",
			"--use-signing-config=false", digest.Name())
		if _, err := command(ctx, ".", nil, s.program, args...); err != nil {
			return err
		}
	}
	return nil
}

// String says how an artifact was signed.
func (s signer) String() string {
	switch s.key {
	case "":
		return ", not signed"
	case keyless:
		return ", signed with the identity of the workflow"
	}
	return fmt.Sprintf(", signed with %s", s.key)
}
