package main

import (
	"context"
	"fmt"
)

// keyless signs with the identity of the workflow, and not with a key.
const keyless = "keyless"

// signer signs artifacts in a registry with cosign, which stores the signature beside the artifact.
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
	args := []string{"sign", "--yes"}
	if s.key != keyless {
		// A key needs neither the public log of signatures nor its configuration.
		args = append(args, "--key", s.key, "--tlog-upload=false", "--use-signing-config=false")
	}
	_, err = command(ctx, ".", nil, s.program, append(args, digest.Name())...)
	return err
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
