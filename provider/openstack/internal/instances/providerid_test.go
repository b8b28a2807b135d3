package instances

import (
	"strings"
	"testing"
)

const someUUID = "0b8a1c4e-3b1d-4f6a-9a53-6a6a0e2d7f10"

func TestParseProviderID_EachForm_IsReadOrRefused(t *testing.T) {
	for text, want := range map[string]ProviderID{
		"openstack:///testInstanceID":               {ID: "testInstanceID"},
		"openstack://us-east-1/testInstanceID":      {Region: "us-east-1", ID: "testInstanceID"},
		"/testInstanceID":                           {ID: "testInstanceID"},
		"us-east-1/testInstanceID":                  {Region: "us-east-1", ID: "testInstanceID"},
		"openstack:///" + someUUID:                  {ID: someUUID},
		someUUID:                                    {ID: someUUID},
		strings.ToUpper(someUUID):                   {ID: someUUID},
		"openstack:///" + strings.ToUpper(someUUID): {ID: someUUID},
	} {
		if got, err := ParseProviderID(text); err != nil || got != want {
			t.Errorf("ParseProviderID(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseProviderID_Malformed_IsAnErrorThatQuotesIt(t *testing.T) {
	for _, text := range []string{
		"", "testInstanceID", "openstack://testInstanceID", "openstack://us-east-1-testInstanceID",
		"openstack:///", "openstack://",
		"openstack://" + someUUID, "other-provider:///testInstanceID", "OpenStack:///id",
		"openstack://a/b/c", "/", "region/", "a/b/c",
		someUUID + "0", "0b8a1c4e_3b1d-4f6a-9a53-6a6a0e2d7f10",
		"gb8a1c4e-3b1d-4f6a-9a53-6a6a0e2d7f10",
	} {
		if got, err := ParseProviderID(text); err == nil ||
			!strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("ParseProviderID(%q) = %+v, %v; want an error that quotes it", text, got, err)
		}
	}
}

func TestParseProviderID_Long_IsAShortError(t *testing.T) {
	long := strings.Repeat("\x1b", 1<<20)
	for _, text := range []string{
		long, "aws:///" + long, scheme + "/" + long, scheme + long + "/" + someUUID, "/a/" + long,
	} {
		if _, err := ParseProviderID(text); err == nil || len(err.Error()) > 300 ||
			strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("the error about %d bytes is %.400v", len(text), err)
		}
	}
}

func FuzzProviderID(f *testing.F) {
	for _, text := range []string{
		"openstack:///" + someUUID, "openstack://RegionOne/" + someUUID, "/id", "region/id",
		someUUID, "id", "openstack://id", "aws:///i-1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseProviderID(text)
		if err != nil {
			return
		}
		if id.ID == "" || strings.Contains(id.ID, "/") || strings.Contains(id.Region, "/") {
			t.Errorf("ParseProviderID(%q) = %+v", text, id)
		}
		if again, err := ParseProviderID(id.String()); err != nil || again != id {
			t.Errorf("ParseProviderID(%q) = %+v, but its text %q gives %+v, %v", text,
				id, id, again, err)
		}
	})
}
