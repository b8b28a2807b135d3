package endpoints

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/webpage"
)

// foldedAbove is the number of ready load balancers that the page folds.
const foldedAbove = 20

// content is the page of several Managers at a time.
type content struct{ now time.Time }

func (c content) of(views []managerView) webpage.Part {
	var articles []webpage.Part
	for i, v := range views {
		articles = append(articles, c.manager("m"+strconv.Itoa(i), v))
	}
	return webpage.All(
		webpage.If(len(views) == 0, webpage.El("p", webpage.Text("This process runs no Manager."))),
		webpage.If(len(views) > 1, overview(views)),
		webpage.All(articles...),
	)
}

// overview is a table of the Managers.
func overview(views []managerView) webpage.Part {
	var rows []webpage.Part
	for i, v := range views {
		var subjects []string
		for _, p := range v.Problems {
			subjects = append(subjects, p.Subject)
		}
		if subjects == nil {
			subjects = []string{"none"}
		}
		rows = append(rows, webpage.El("tr",
			state(v.Mark.Part()),
			webpage.RowHeading(webpage.Link("#m"+strconv.Itoa(i), webpage.Name(v.Title))),
			webpage.El("td", webpage.Text(strings.Join(subjects, "; "))),
		))
	}
	return webpage.El("table",
		caption("%d Managers, worst first", len(views)),
		webpage.Row("State", "Manager", "Problems"),
		webpage.El("tbody", rows...),
	)
}

func (c content) manager(id string, v managerView) webpage.Part {
	return webpage.El("article",
		webpage.Attr("id", id), webpage.Attr("aria-labelledby", id+"-title"),
		webpage.El("h2", webpage.Attr("id", id+"-title"),
			v.Mark.Part(), webpage.Text(" "), muted(webpage.Text(v.Title))),
		c.problems(v.Problems),
		c.facts(v),
		section(id, "load-balancers", "Load balancers", c.loadBalancers(v)),
		section(id, "nodes", "Nodes that wait for initialization or fail", c.nodes(v.Nodes)),
		section(id, "calls", "In flight", c.calls(v.Calls)),
		section(id, "controllers", "Controllers", controllers(v.Controllers)),
		section(id, "terms", "Terms", c.terms(v)),
	)
}

func (c content) problems(problems []problem) webpage.Part {
	if len(problems) == 0 {
		return webpage.El("p", webpage.Text("No problems."))
	}
	return webpage.El("ul", webpage.Each(problems, func(p problem) webpage.Part {
		return webpage.El("li", webpage.Class(p.Level.String()),
			p.Part(), webpage.Text(" "),
			webpage.El("div", webpage.Class("what"),
				webpage.If(!p.Since.IsZero(),
					webpage.Text("("), c.age(p.Since), webpage.Text(") ")),
				webpage.LongText(p.Text)),
		)
	}))
}

func (c content) facts(v managerView) webpage.Part {
	fact := func(title string, parts ...webpage.Part) webpage.Part {
		return webpage.All(webpage.El("dt", webpage.Text(title)), webpage.El("dd", parts...))
	}
	return webpage.El("dl",
		fact("Provider", webpage.Text(v.Provider)),
		fact("Term", webpage.Number(v.Term), webpage.If(v.Ready, webpage.Text(", ready")),
			optional(", opening: ", v.Step, "")),
		webpage.If(v.Election.Identity != "", fact("This replica", code(v.Election.Identity))),
		webpage.If(v.Election.Leader != "", fact("Leader", code(v.Election.Leader))),
		webpage.If(!v.Election.LastRenewal.IsZero(),
			fact("Lease renewed", c.age(v.Election.LastRenewal), webpage.Text(" ago"))),
		webpage.If(!v.RetryAt.IsZero(),
			fact("Next attempt", webpage.Text("at "), webpage.Time(v.RetryAt, ""))),
	)
}

func (c content) loadBalancers(v managerView) webpage.Part {
	if len(v.Unready)+len(v.ReadyBalancers) == 0 {
		return none("None reported.")
	}
	ready := []webpage.Part{
		webpage.El("summary", webpage.Text(strconv.Itoa(len(v.ReadyBalancers))+" ready")),
		webpage.El("table", webpage.Attr("aria-label", "Load balancers that are ready"),
			c.balancers(v.ReadyBalancers)),
	}
	if len(v.ReadyBalancers) <= foldedAbove {
		ready = append(ready, webpage.Attr("open", ""))
	}
	return webpage.All(
		webpage.If(len(v.Unready) > 0, webpage.El("table",
			caption("%d not ready, or with a defect, worst first", len(v.Unready)),
			c.balancers(v.Unready))),
		webpage.If(len(v.ReadyBalancers) > 0, webpage.El("details", ready...)),
	)
}

// balancers are the head and the body of a table.
func (c content) balancers(all []status.LoadBalancer) webpage.Part {
	return webpage.All(
		webpage.Row("State", "Service", "Load balancer"),
		webpage.El("tbody", webpage.Each(all, func(lb status.LoadBalancer) webpage.Part {
			return webpage.El("tr",
				state(markOf(lb.State).Part(), webpage.Text(" "), muted(c.age(lb.Since))),
				webpage.RowHeading(webpage.Name(lb.Namespace+"/"+lb.Service)),
				webpage.El("td", c.balancer(lb)),
			)
		})),
	)
}

func (c content) balancer(lb status.LoadBalancer) webpage.Part {
	return webpage.All(
		webpage.If(lb.Message != "", optional("", lb.Reason, ": "), webpage.LongText(lb.Message),
			webpage.El("br")),
		webpage.Each(lb.Addresses, func(address string) webpage.Part {
			return webpage.All(webpage.El("code", webpage.Text(address)), webpage.Text(" "))
		}),
		optional("", lb.ProvisioningStatus, " "),
		optional("", lb.OperatingStatus, " "),
		webpage.If(lb.Name != "", muted(webpage.Name(lb.Name)), webpage.Text(" ")),
		webpage.If(lb.ID != "",
			webpage.El("code", webpage.Class("muted"), webpage.Name(lb.ID)), webpage.Text(" ")),
		webpage.If(!lb.ComparedAt.IsZero(),
			muted(webpage.Text("compared "), c.age(lb.ComparedAt), webpage.Text(" ago"))),
		webpage.If(len(lb.Drift) > 0,
			webpage.El("br"),
			webpage.El("span", webpage.Class("warn"),
				webpage.Text("drift "), c.age(lb.DriftedAt), webpage.Text(" ago:")),
			webpage.Text(" "+strings.Join(lb.Drift, "; "))),
	)
}

func (c content) nodes(nodes []status.Node) webpage.Part {
	if len(nodes) == 0 {
		return none("None.")
	}
	return webpage.El("table",
		caption("%d, oldest first", len(nodes)),
		webpage.Row("Age", "Node", "Reason"),
		webpage.El("tbody", webpage.Each(nodes, func(n status.Node) webpage.Part {
			return webpage.El("tr",
				state(c.age(n.Since)),
				webpage.RowHeading(webpage.Name(n.Name)),
				webpage.El("td", optional("", n.Reason, ": "), webpage.LongText(n.Message)),
			)
		})),
	)
}

func (c content) calls(calls []status.Activity) webpage.Part {
	if len(calls) == 0 {
		return none("No calls.")
	}
	return webpage.El("table",
		caption("%d calls to the cloud and requests to the API server, oldest first", len(calls)),
		webpage.Row("Age", "Call", "Object"),
		webpage.El("tbody", webpage.Each(calls, func(a status.Activity) webpage.Part {
			return webpage.El("tr",
				state(c.age(a.Since)),
				webpage.RowHeading(webpage.Name(a.Name),
					webpage.If(a.MayAct, webpage.Text(" "), muted(webpage.Text("(writes)")))),
				webpage.El("td", webpage.Name(a.Object)),
			)
		})),
	)
}

func controllers(all []status.Controller) webpage.Part {
	return webpage.El("table",
		caption("%d, worst first", len(all)),
		webpage.Row("State", "Controller", "Reason"),
		webpage.El("tbody", webpage.Each(all, func(s status.Controller) webpage.Part {
			return webpage.El("tr",
				state(markOf(s.State).Part()),
				webpage.RowHeading(webpage.Name(s.Name)),
				webpage.El("td", webpage.LongText(s.Reason),
					webpage.If(s.Restarts > 0, webpage.Text(" "),
						muted(webpage.Text("restarts: "), webpage.Number(s.Restarts)))),
			)
		})),
	)
}

func (c content) terms(v managerView) webpage.Part {
	if len(v.Terms) == 0 {
		return none("None yet.")
	}
	return webpage.All(
		webpage.El("svg", webpage.Attr("viewBox", "0 0 1000 20"),
			webpage.Attr("preserveAspectRatio", "none"), webpage.Attr("role", "img"),
			webpage.Attr("aria-label", "Timeline of the terms, which the table lists"),
			webpage.Each(v.Timeline, bar.part)),
		webpage.El("table",
			caption("the last %d, newest first; the bar runs from the first of them until now",
				len(v.Terms)),
			webpage.Row("End", "Term", "Course"),
			webpage.El("tbody", webpage.Each(v.Terms, func(t status.Term) webpage.Part {
				return webpage.El("tr",
					state(markOf(t).Part()),
					webpage.RowHeading(webpage.Number(t.Number)),
					webpage.El("td", course(t)),
				)
			}))),
	)
}

// course is what happened in a term.
func course(t status.Term) webpage.Part {
	return webpage.All(
		webpage.Text("began "), webpage.Time(t.Began, ""),
		webpage.If(!t.Opened.IsZero(), webpage.Text(", ready after "+between(t.Began, t.Opened))),
		webpage.If(!t.DrainBegan.IsZero(),
			webpage.Text(", lasted "+between(t.Began, t.DrainBegan)),
			webpage.If(!t.Ended.IsZero(),
				webpage.Text(", drained in "+between(t.DrainBegan, t.Ended)))),
		webpage.If(t.Reason != "", webpage.El("br"), webpage.LongText(t.Reason)),
	)
}

func (b bar) part() webpage.Part {
	return webpage.El("rect", webpage.Class(b.Level.String()),
		webpage.Attr("x", strconv.Itoa(b.X)), webpage.Attr("y", strconv.Itoa(b.Y)),
		webpage.Attr("width", strconv.Itoa(b.Width)),
		webpage.Attr("height", strconv.Itoa(b.Height)))
}

// age is the time since t, or nothing if t is zero.
func (c content) age(t time.Time) webpage.Part {
	return webpage.If(!t.IsZero(), webpage.Time(t, between(t, c.now)))
}

func section(id, name, title string, parts ...webpage.Part) webpage.Part {
	return webpage.El("section", webpage.Attr("id", id+"-"+name),
		webpage.El("h3", webpage.Text(title)), webpage.All(parts...))
}

func caption(format string, n int) webpage.Part {
	return webpage.El("caption", webpage.Text(fmt.Sprintf(format, n)))
}

func state(parts ...webpage.Part) webpage.Part {
	return webpage.El("td", webpage.Class("state"), webpage.All(parts...))
}

func muted(parts ...webpage.Part) webpage.Part {
	return webpage.El("span", webpage.Class("muted"), webpage.All(parts...))
}

func none(text string) webpage.Part {
	return webpage.El("p", webpage.Class("muted"), webpage.Text(text))
}

func code(name string) webpage.Part { return webpage.El("code", webpage.Name(name)) }

// optional is a text with its surroundings, or nothing if the text is empty.
func optional(before, text, after string) webpage.Part {
	return webpage.If(text != "", webpage.Text(before+text+after))
}
