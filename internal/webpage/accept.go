package webpage

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
)

// maxAccept limits the header that Accepted reads, in bytes.
const maxAccept = 4096

// A MediaType is an element of an Accept header.
type MediaType struct {
	// Name is in lower case, such as text/html.
	Name string
	// Params have names in lower case.
	Params map[string]string
	// Weight is above 0 and at most 1.
	Weight float64
}

// Accepted returns the media types of an Accept header, the most preferred first. Invalid elements
// are ignored, and so is a header of more than 4 KiB.
func Accepted(header string) (types []MediaType) {
	if len(header) > maxAccept {
		return nil
	}
	for one := range strings.SplitSeq(header, ",") {
		name, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		weight := 1.0
		if text, ok := params["q"]; ok {
			weight, err = strconv.ParseFloat(text, 64)
		}
		if err == nil && weight > 0 && weight <= 1 {
			types = append(types, MediaType{Name: name, Params: params, Weight: weight})
		}
	}
	slices.SortStableFunc(types, func(a, b MediaType) int {
		return cmp.Compare(b.Weight, a.Weight)
	})
	return types
}

// IsPreferred reports whether an Accept header prefers a page to JSON, as that of a browser does.
// Without a preference it returns false.
func IsPreferred(header string) bool {
	var page, data float64
	for _, t := range Accepted(header) {
		switch t.Name {
		case "text/html":
			page = max(page, t.Weight)
		case "application/json":
			data = max(data, t.Weight)
		}
	}
	return page > data
}
