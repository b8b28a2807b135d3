package capability

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

func TestNetwork_ListOfExtensions_IsReadOrRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{"extensions":[{"alias":"router","name":"Router"},{"alias":"extraroute"}]}`: "",
		`{"extensions":[]}`: "Neutron: the response does not follow the API",
		`{}`:                "the list is missing",
		`<html>`:            "invalid character",
	} {
		t.Run(body, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request,
			) {
				if r.URL.Path != "/extensions" {
					t.Errorf("%s was requested", r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(body))
			}))
			defer service.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: transport}}
			client := &gophercloud.ServiceClient{
				ProviderClient: provider,
				Endpoint:       service.URL + "/",
			}
			has, err := Network(func(context.Context) (*gophercloud.ServiceClient, error) {
				return client, nil
			}, Options{}).Get(t.Context())
			switch {
			case want == "" && (err != nil || len(has) != 2 || !has["router"] ||
				!has["extraroute"]):
				t.Errorf("%v, %v", has, err)
			case want != "" && (!errors.Is(err, ErrUnknown) ||
				!strings.Contains(err.Error(), want)):
				t.Errorf("error %v, want ErrUnknown with %q", err, want)
			}
		})
	}
}

func TestNetwork_NoClient_IsUnknown(t *testing.T) {
	none := func(context.Context) (*gophercloud.ServiceClient, error) { return nil, errDown }
	if has, err := Network(none, Options{}).Get(t.Context()); !errors.Is(err, ErrUnknown) ||
		!errors.Is(err, errDown) {
		t.Errorf("%v, %v", has, err)
	}
}
