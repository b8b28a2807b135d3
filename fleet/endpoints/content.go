package endpoints

import (
	"fmt"

	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/webpage"
)

func problems(problems []string) webpage.Part {
	if len(problems) == 0 {
		return webpage.El("p", webpage.Text("The fleet itself has no problems."))
	}
	return webpage.El("ul", webpage.Each(problems, func(problem string) webpage.Part {
		return webpage.El("li", webpage.Class("bad"),
			webpage.Bad.Mark("problem").Part(), webpage.Text(" "),
			webpage.El("span", webpage.Text(problem)))
	}))
}

func replicas(status fleet.Status) webpage.Part {
	return webpage.El("table",
		webpage.El("caption", webpage.Text("Live replicas")),
		webpage.Row("Replica", "Weight", "Leads"),
		webpage.El("tbody", webpage.Each(status.Replicas, func(r fleet.ReplicaStatus) webpage.Part {
			return webpage.El("tr",
				webpage.RowHeading(webpage.El("code", webpage.Name(r.Identity)),
					webpage.If(r.Identity == status.Identity, webpage.Text(" (this one)"))),
				webpage.El("td", webpage.Number(r.Weight)),
				webpage.El("td", webpage.Number(r.Leads)),
			)
		})),
	)
}

func (t tally) part() webpage.Part {
	return webpage.All(
		webpage.Link(t.Link, webpage.Text(fmt.Sprintf("%d %s", t.Count, t.State))),
		webpage.Text(" "))
}

// table is the table of the clusters, of one state or of all.
func table(rows []row, headings []heading, state string) webpage.Part {
	caption := fmt.Sprintf("%d clusters, as this replica sees them", len(rows))
	if state != "" {
		caption = fmt.Sprintf("%d clusters in the state %s, as this replica sees them", len(rows),
			state)
	}
	return webpage.El("table",
		webpage.El("caption", webpage.Text(caption)),
		webpage.El("thead", webpage.El("tr", webpage.Each(headings, heading.part))),
		webpage.El("tbody", webpage.Each(rows, row.part)),
	)
}

func (h heading) part() webpage.Part {
	return webpage.El("th", webpage.Attr("scope", "col"),
		webpage.If(h.Sorted != "", webpage.Attr("aria-sort", h.Sorted)),
		webpage.Link(h.Link, webpage.Text(h.Title)))
}

func (r row) part() webpage.Part {
	name := webpage.Name(r.Name)
	if r.Link != "" {
		name = webpage.Link(r.Link, name)
	}
	return webpage.El("tr",
		webpage.El("td", webpage.Class("state"), r.Mark.Part()),
		webpage.RowHeading(name),
		webpage.El("td", webpage.El("code", webpage.Name(r.Leader))),
		webpage.El("td", webpage.LongText(r.Reason)),
	)
}
