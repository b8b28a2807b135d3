package nova

import (
	"net/http"
	"regexp"
	"slices"
	"time"
)

// checkServerQuery refuses what Nova's schema of the query does not allow
// (nova/api/openstack/compute/schemas/servers.py), and the statuses that it does not know. Since
// microversion 2.75 an unknown parameter is refused; before, it is ignored.
func (r *request) checkServerQuery() *answer {
	for name := range r.Query {
		if r.Version.AtLeast(75) && !slices.Contains(serverParameters(), name) &&
			name[:min(1, len(name))] != "_" {
			return refuse(http.StatusBadRequest,
				"'"+name+"' does not match any of the regexes: '^_'")
		}
	}
	if limit := r.Query.Get("limit"); r.Query.Has("limit") && !digits.MatchString(limit) {
		return r.badParameter("limit", "'"+limit+"' does not match '^[0-9]*$'")
	}
	for _, name := range []string{"changes-since", "changes-before"} {
		if !r.Query.Has(name) || name == "changes-before" && !r.Version.AtLeast(66) {
			continue
		}
		if _, err := time.Parse(time.RFC3339, r.Query.Get(name)); err != nil {
			return r.badParameter(name, "'"+r.Query.Get(name)+"' is not a 'date-time'")
		}
	}
	for _, name := range []string{"name", "ip", "ip6"} {
		if !r.Query.Has(name) {
			continue
		}
		if _, err := compilePattern(r.Query.Get(name)); err != nil || r.Query.Get(name) == "" {
			return r.noPattern(name)
		}
	}
	return r.checkStatuses()
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// checkStatuses: only administrators see deleted servers. A status that is unknown
// is an error since 2.38 only.
func (r *request) checkStatuses() *answer {
	if r.asksForDeleted() && !r.IsAdmin() {
		return refuse(http.StatusForbidden, "Only administrators may list deleted instances")
	}
	statuses := r.Query["status"]
	if len(statuses) > 0 && r.Version.AtLeast(38) && !slices.ContainsFunc(statuses, isStatus) {
		return refuse(http.StatusBadRequest, "Invalid status value")
	}
	return nil
}

func (r *request) badParameter(name, why string) *answer {
	return refuse(http.StatusBadRequest,
		"Invalid input for query parameters "+name+". Value: "+r.Query.Get(name)+". "+why)
}

func (r *request) noPattern(name string) *answer {
	return r.badParameter(name, "'"+r.Query.Get(name)+"' is not a 'regex'")
}

// compilePattern: Nova hands the pattern to MySQL, whose usual collation is blind to case. It may
// match anywhere in the value.
func compilePattern(text string) (*regexp.Regexp, error) { return regexp.Compile("(?i)" + text) }

// serverParameters are those that have a meaning here, and those of Nova's that have none.
func serverParameters() []string {
	return []string{
		"access_ip_v4", "access_ip_v6", "all_tenants", "auto_disk_config", "availability_zone",
		"changes-before", "changes-since",
		"config_drive", "created_at", "deleted", "description", "display_description",
		"display_name", "flavor", "host", "hostname", "image",
		"image_ref", "instance_type_id", "ip", "ip6", "kernel_id", "key_name", "launch_index",
		"launched_at", "limit", "locked", "locked_by",
		"marker", "name", "node", "not-tags", "not-tags-any", "power_state", "progress",
		"project_id", "ramdisk_id", "reservation_id",
		"root_device_name", "soft_deleted", "sort_dir", "sort_key", "status", "tags", "tags-any",
		"task_state", "tenant_id",
		"terminated_at", "user_id", "uuid", "vm_state",
	}
}
