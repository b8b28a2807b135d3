// Package fxinput is about what a module takes from an fx app.
package fxinput

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/fx"
)

// Dropped returns an error for each optional field of inputs, a struct with fx.In, whose value fx
// has dropped: its constructor, or that of something that it needs, lacks a dependency. Fx tells
// this only by its graph.
func Dropped(inputs any, graph fx.DotGraph) error {
	var dropped []error
	wiring := read(graph)
	value := reflect.ValueOf(inputs)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if _, optional := field.Tag.Lookup("optional"); !optional || !value.Field(i).IsZero() {
			continue
		}
		if by, lacks := wiring.lack(field.Type.String(), map[string]bool{}); lacks != "" {
			dropped = append(dropped, fmt.Errorf(
				"the app provides %s, but its constructor cannot be called: %s needs %s, which "+
					"the app does not provide", field.Type, by, lacks))
		}
	}
	return errors.Join(dropped...)
}

// wiring is the graph of an app. A key is a type, perhaps with a name.
type wiring struct {
	// makers are the constructors by what they make.
	makers map[string][]string
	// needs are what constructors need, without optional values and groups.
	needs map[string][]string
	names map[string]string
}

// read reads the lines that dig.Visualize writes: a constructor, what it makes, and what it needs.
func read(graph fx.DotGraph) wiring {
	w := wiring{map[string][]string{}, map[string][]string{}, map[string]string{}}
	folder, maker := "", ""
	for line := range strings.Lines(string(graph)) {
		line = strings.TrimSpace(line)
		if label, ok := strings.CutPrefix(line, `label = "`); ok {
			folder = strings.TrimSuffix(label, `";`)
		} else if id, label, ok := strings.Cut(line, ` [shape=plaintext label="`); ok {
			maker = id
			w.names[maker] = folder + "." + strings.TrimSuffix(label, `"];`)
		} else if id, need, ok := strings.Cut(line, ` -> "`); ok {
			key, attributes, _ := strings.Cut(need, `" [`)
			isOptional := strings.Contains(attributes, "style=dashed")
			if isGroup := strings.HasPrefix(key, "[type="); !isGroup && !isOptional {
				w.needs[id] = append(w.needs[id], key)
			}
		} else if key, _, ok := strings.Cut(line, `" [label=`); ok {
			key = strings.TrimPrefix(key, `"`)
			w.makers[key] = append(w.makers[key], maker)
		}
	}
	return w
}

// lack returns the first constructor of key, or of what it needs, that lacks something.
func (w wiring) lack(key string, seen map[string]bool) (maker, lacks string) {
	if seen[key] {
		return "", ""
	}
	seen[key] = true
	for _, maker := range w.makers[key] {
		for _, need := range w.needs[maker] {
			if len(w.makers[need]) == 0 {
				return w.names[maker], need
			}
			if by, lacks := w.lack(need, seen); lacks != "" {
				return by, lacks
			}
		}
	}
	return "", ""
}
