package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// A job is a run of one test binary.
type job struct {
	// Name is the import path of the package, with a suffix if another job runs other tests of it.
	Name string
	// Dir is the folder of the package, where the binary runs.
	Dir    string
	Binary string
	// Race: the binary has the race detector.
	Race bool
	// Args select tests.
	Args []string
}

func planFile(dir string) string { return filepath.Join(dir, "plan.json") }

func writePlan(dir string, jobs []job) error {
	data, err := json.MarshalIndent(jobs, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(planFile(dir), data, 0o644)
}

func readPlan(dir string) (jobs []job, err error) {
	data, err := os.ReadFile(planFile(dir))
	if err != nil {
		return nil, err
	}
	return jobs, json.Unmarshal(data, &jobs)
}
