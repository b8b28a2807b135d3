// Command verified keeps the results of the suites below test/providers on labs with a real
// OpenStack, by release.
//
//	go run ./tools/verified -lab bin/openstack-lab bin/logs/packets.json
//	go run ./tools/verified
//
// With -lab it records the results of a run, from a log of gotestsum, in bin/openstack-runs.json.
// It refuses a run in which a test of packets passes without a note of what was seen.
// Without, it merges the record into docs/evidence/openstack-runs.json, and writes the tables of
// docs/evidence/openstack-runs.md from that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

const (
	recorded = "bin/openstack-runs.json"
	kept     = "docs/evidence/openstack-runs.json"
	page     = "docs/evidence/openstack-runs.md"
)

func main() {
	lab := flag.String("lab", "", "the folder of the lab on which the tests of the log ran")
	flag.Parse()
	do := write
	if *lab != "" {
		do = func() error { return record(*lab, flag.Arg(0)) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "verified:", err)
		os.Exit(1)
	}
}

// record adds the suites of a log to the record.
func record(labFolder, logFile string) error {
	var lab struct {
		Release  string
		Versions map[string]string
		Archive  string
	}
	if err := load(filepath.Join(labFolder, "lab.json"), &lab); err != nil {
		return err
	}
	if !slices.Contains(releases, lab.Release) {
		return fmt.Errorf("the lab in %s has release %q, want one of %q", labFolder, lab.Release,
			releases)
	}
	var seconds int
	err := load(filepath.Join(labFolder, "up-seconds"), &seconds)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	revision, err := evidence.Revision(context.Background())
	if err != nil {
		return err
	}
	log, err := os.Open(logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	found, err := read(log, revision)
	if err != nil {
		return fmt.Errorf("%s: %w", logFile, err)
	}
	if s := found[packets]; s != nil && len(s.unnoted()) > 0 {
		return fmt.Errorf("%s: %q passed and noted nothing that was seen (the method note)", logFile,
			s.unnoted())
	}
	_, err = add(recorded, runs{
		lab.Release: {
			Versions: lab.Versions, Archive: lab.Archive, Seconds: seconds, Suites: found,
		},
	})
	return err
}

// write adds the record to what is kept, and writes the page.
func write() error {
	more := runs{}
	if err := load(recorded, &more); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := add(kept, more)
	if err != nil {
		return err
	}
	text, _, err := evidence.ReadPage(page)
	if err != nil {
		return err
	}
	fmt.Println("verified: write", page)
	return os.WriteFile(page, []byte(text+"\n"+all.tables()), 0o644)
}

// add merges runs into a file, and returns what it has then.
func add(file string, more runs) (runs, error) {
	all := runs{}
	if err := load(file, &all); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all.merge(more)
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(file, append(data, '\n'), 0o644)
}

func load(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
