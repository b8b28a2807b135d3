package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	changelogFile = "CHANGELOG.md"
	checksumFile  = "SHA256SUMS"
)

// changelogSection returns the text below the version's heading, `## v1.2.3 - 2026-01-31`.
func changelogSection(changelog, version string) (string, error) {
	var section []string
	found := false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if found {
				break
			}
			fields := strings.Fields(heading)
			found = len(fields) > 0 && fields[0] == version
			continue
		}
		if found {
			section = append(section, line)
		}
	}
	text := strings.TrimSpace(strings.Join(section, ""))
	switch {
	case !found:
		return "", fmt.Errorf("%s has no section %q: write it first", changelogFile, "## "+version)
	case text == "":
		return "", fmt.Errorf("the section of %s in %s is empty", version, changelogFile)
	}
	return text + "\n", nil
}

// writeChecksums writes the checksums of all files of dir to SHA256SUMS, for `sha256sum --check`.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumFile), []byte(sums.String()), 0o644)
}
