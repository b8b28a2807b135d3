package neutron

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
)

// extensionTags adds tags to resources, since Rocky (Networking API reference,
// "standard-attr-tag").
const extensionTags = "standard-attr-tag"

// replaceTags replaces the tags with one request. It is a no-op on a cloud without tags. Only after
// a failure does it check the extension, and returns an error if that fails, too.
func (a *API) replaceTags(ctx context.Context, collection, id string, tags []string) error {
	err := a.request(ctx, fmt.Sprintf("tag %s %s", collection, id),
		func(client *gophercloud.ServiceClient) error {
			if len(tags) == 0 {
				return attributestags.DeleteAll(ctx, client, collection, id).ExtractErr()
			}
			return attributestags.ReplaceAll(ctx, client, collection, id,
				attributestags.ReplaceAllOpts{Tags: once(tags)}).Err
		})
	if !errors.Is(err, ErrNotFound) || isKind(err, "TagResourceNotFound") {
		return err
	}
	has, unknown := a.extensions.Get(ctx)
	switch {
	case unknown != nil:
		return errors.Join(err, unknown)
	case has[extensionTags]:
		return err
	}
	a.config.Logger.V(2).Info("Neutron has no tags extension", "resource", collection, "id", id)
	return nil
}

// once removes duplicates, which Neutron refuses.
func once(tags []string) []string {
	var kept []string
	for _, tag := range tags {
		if !slices.Contains(kept, tag) {
			kept = append(kept, tag)
		}
	}
	return kept
}
