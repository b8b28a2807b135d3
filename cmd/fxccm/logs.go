package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/fx/fxevent"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
)

// maxVerbosity is the most verbose level at which client-go logs no bodies of requests.
const maxVerbosity = 7

// eventLevel is the verbosity of fx's events.
const eventLevel = 4

// limitVerbosity lowers levels at which client-go logs the bodies of requests: they have tokens and
// Secrets. It returns the flags that it changed.
func limitVerbosity(c *logsapi.LoggingConfiguration) (lowered []string) {
	if c.Verbosity > maxVerbosity {
		lowered = append(lowered, fmt.Sprintf("-v=%d", c.Verbosity))
		c.Verbosity = maxVerbosity
	}
	for i := range c.VModule {
		if item := &c.VModule[i]; item.Verbosity > maxVerbosity {
			lowered = append(lowered,
				fmt.Sprintf("--vmodule=%s=%d", item.FilePattern, item.Verbosity))
			item.Verbosity = maxVerbosity
		}
	}
	return lowered
}

// startLogging applies the logging flags to klog, which can be done once in a process.
func startLogging(c *logsapi.LoggingConfiguration) error {
	var errs []error
	for _, invalid := range logsapi.Validate(c, nil, nil) {
		errs = append(errs, fmt.Errorf("%s: %s", loggingFlag(invalid.Field), invalid.ErrorBody()))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	lowered := limitVerbosity(c)
	if err := logsapi.ValidateAndApply(c, nil); err != nil {
		return fmt.Errorf("apply the logging flags: %w", err)
	}
	logs.InitLogs() // also redirects the standard library's log package
	for _, flag := range lowered {
		klog.Background().Info("Verbosity lowered, because requests with secrets would be in the log",
			"flag", flag, "verbosity", maxVerbosity)
	}
	return nil
}

// loggingFlag is the flag that sets a field of the logging configuration.
func loggingFlag(field string) string {
	field, _, _ = strings.Cut(field, "[")
	flag, ok := map[string]string{
		"format":                      "--logging-format",
		"flushFrequency":              "--" + logsapi.LogFlushFreqFlagName,
		"verbosity":                   "-v",
		"vmodule":                     "--vmodule",
		"options.text.splitStream":    "--log-text-split-stream",
		"options.text.infoBufferSize": "--log-text-info-buffer-size",
		"options.json.splitStream":    "--log-json-split-stream",
		"options.json.infoBufferSize": "--log-json-info-buffer-size",
	}[field]
	if !ok {
		return "logging configuration: " + field
	}
	return flag
}

// logEvents writes fx's own events to the log. run reports its errors.
func logEvents() fxevent.Logger {
	events := &fxevent.SlogLogger{Logger: slog.New(
		logr.ToSlogHandler(klog.Background().WithName("fx").V(eventLevel)))}
	events.UseErrorLevel(slog.LevelInfo)
	return events
}
