package awsstub

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
)

// fault is an error of the API.
type fault struct{ code, message string }

func (f *fault) Error() string { return f.code + ": " + f.message }

const invalidAction = "InvalidAction"

// operation answers a request, with the lock held. The answer is marshalled to XML.
type operation func(c *Cloud, form url.Values) (answer any, err *fault)

var operations = map[string]operation{
	"DescribeInstances":         describeInstances,
	"DescribeInstanceTopology":  describeInstanceTopology,
	"DescribeAvailabilityZones": describeAvailabilityZones,
	"DescribeSubnets":           describeSubnets,
	"DescribeSecurityGroups":    describeSecurityGroups,
	"DescribeRouteTables":       describeRouteTables,

	"CreateLoadBalancer":                  createLoadBalancer,
	"DescribeLoadBalancers":               describeLoadBalancers,
	"DeleteLoadBalancer":                  deleteLoadBalancer,
	"DescribeLoadBalancerAttributes":      describeLoadBalancerAttributes,
	"ModifyLoadBalancerAttributes":        modifyLoadBalancerAttributes,
	"ConfigureHealthCheck":                configureHealthCheck,
	"RegisterInstancesWithLoadBalancer":   registerInstances,
	"DeregisterInstancesFromLoadBalancer": deregisterInstances,
}

// credential matches the key in the header of a request with a signature of version 4. The header
// has the form key/date/region/service/aws4_request.
var credential = regexp.MustCompile(`Credential=([^/]+)/`)

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := &Request{Action: r.PostForm.Get("Action")}
	if match := credential.FindStringSubmatch(r.Header.Get("Authorization")); match != nil {
		request.AccessKey = match[1]
	}
	if !c.arrive(request).wait(r.Context()) {
		c.abandon(request)
		return
	}
	answer, err := c.answer(request, r.PostForm)
	status := http.StatusOK
	if err != nil {
		answer, status = errorAnswer(err), http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(answer) // the client has gone
}

func (c *Cloud) answer(r *Request, form url.Values) (any, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notify()
	answer, err := any(nil),
		&fault{invalidAction, fmt.Sprintf("the stub does not know the action %q", r.Action)}
	if operate, ok := operations[r.Action]; ok {
		answer, err = operate(c, form)
	}
	r.Done = true
	if err != nil {
		r.Code = err.code
	}
	return answer, err
}

// errorAnswer has the error both where EC2 puts it and where the other services put it.
func errorAnswer(f *fault) any {
	type apiError struct{ Code, Message string }
	e := apiError{f.code, f.message}
	return struct {
		XMLName xml.Name   `xml:"Response"`
		Errors  []apiError `xml:"Errors>Error"`
		Error   apiError
	}{Errors: []apiError{e}, Error: e}
}

// list reads the values prefix1, prefix2, … of a form.
func list(form url.Values, prefix string) (values []string) {
	for i := 1; form.Has(prefix + strconv.Itoa(i)); i++ {
		values = append(values, form.Get(prefix+strconv.Itoa(i)))
	}
	return values
}
