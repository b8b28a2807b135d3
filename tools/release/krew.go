package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	// repository is the project's page, which has a page for each release.
	repository = "https://github.com/fxccm/fxccm"
	// krewFile is named as krew's index requires: the plugin's name and .yaml.
	krewFile = "fxccm.yaml"
)

// plugin is a plugin of kubectl in the form of krew,
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest. Krew's own types are not used,
// because its module requires a version of client-go that would replace the current one.
type plugin struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   pluginMetadata `json:"metadata"`
	Spec       pluginSpec     `json:"spec"`
}

type pluginMetadata struct {
	Name string `json:"name"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Caveats          string           `json:"caveats"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector pluginSelector `json:"selector"`
	URI      string         `json:"uri"`
	SHA256   string         `json:"sha256"`
	Bin      string         `json:"bin"`
	Files    []pluginFile   `json:"files"`
}

type pluginSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type pluginFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// writeKrewManifest writes the manifest with which krew installs the program as `kubectl fxccm`.
func (b builder) writeKrewManifest(dir string, archives []archive) error {
	manifest := plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   pluginMetadata{Name: "fxccm"},
		Spec: pluginSpec{
			Version:          b.source.version,
			Homepage:         repository,
			ShortDescription: "Inspect the cloud controller manager fxccm",
			Description: `Shows what the cloud controller manager fxccm does in a cluster: its leader, the state of
load balancers and nodes, why a Service is as it is, and what would change.
It also migrates a cluster from openstack-cloud-controller-manager.
`,
			// krew links no second program.
			Caveats: `For completion after "kubectl fxccm", link the program in a folder of the PATH:
  ln -s "$(command -v kubectl-fxccm)" ~/.local/bin/kubectl_complete-fxccm
`,
		},
	}
	for _, each := range archives {
		content, err := os.ReadFile(each.path)
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, pluginPlatform{
			Selector: pluginSelector{MatchLabels: map[string]string{
				"os": each.platform.os, "arch": each.platform.arch,
			}},
			URI: fmt.Sprintf("%s/releases/download/%s/%s", repository, b.source.version,
				filepath.Base(each.path)),
			SHA256: fmt.Sprintf("%x", sha256.Sum256(content)),
			Bin:    each.program,
			Files:  []pluginFile{{each.program, "."}, {"LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, krewFile), text, 0o644)
}
