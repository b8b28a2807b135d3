package main

import "strings"

// A table is a heading and rows. The first cell of a row names the object of the row.
type table struct {
	heading []string
	rows    [][]string
}

// changes describes each new, changed and deleted row, a line each.
func changes(before, after []table) []string {
	var all []string
	for i, now := range after {
		var then table
		if i < len(before) {
			then = before[i]
		}
		all = append(all, now.changesSince(then)...)
	}
	return all
}

func (t table) changesSince(then table) []string {
	var all []string
	for _, row := range t.rows {
		if changed := t.difference(then.row(row[0]), row); changed != "" {
			all = append(all, row[0]+": "+changed)
		}
	}
	for _, row := range then.rows {
		if t.row(row[0]) == nil {
			all = append(all, row[0]+": gone")
		}
	}
	return all
}

func (t table) row(name string) []string {
	for _, row := range t.rows {
		if row[0] == name {
			return row
		}
	}
	return nil
}

// difference names the changed cells of a row.
func (t table) difference(before, now []string) string {
	var changed []string
	for i := 1; i < len(now); i++ {
		switch {
		case before != nil && before[i] == now[i], before == nil && now[i] == "":
		case now[i] == "":
			changed = append(changed, "no "+strings.ToLower(t.heading[i]))
		default:
			changed = append(changed, strings.ToLower(t.heading[i])+" "+now[i])
		}
	}
	return strings.Join(changed, ", ")
}
