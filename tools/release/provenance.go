package main

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// provenanceType is cosign's name of https://slsa.dev/provenance/v1.
const provenanceType = "slsaprovenance1"

// The fields of https://slsa.dev/spec/v1.0/provenance that are known where a release is published.
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []material        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type material struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// provenanceOf returns the predicate that says from which commit and for which repository a release
// was built. The commit is the one that the image names, because the checkout may be another one.
func provenanceOf(index v1.ImageIndex, version, image string) ([]byte, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	revision := manifest.Annotations[revisionAnnotation]
	if revision == "" {
		return nil, fmt.Errorf("the image has no annotation %s", revisionAnnotation)
	}
	var p provenance
	p.BuildDefinition.BuildType = repository + "/blob/main/docs/how-to/verify-a-release.md"
	p.BuildDefinition.ExternalParameters = map[string]string{"VERSION": version, "IMAGE": image}
	p.BuildDefinition.ResolvedDependencies = []material{{
		URI:    "git+" + repository + "@refs/tags/" + version,
		Digest: map[string]string{"gitCommit": revision},
	}}
	p.RunDetails.Builder.ID = repository + "/tree/main/tools/release"
	return json.Marshal(p)
}
