package fake

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// labelsForVolume returns the cloud's own zone for every volume.
func (c *Cloud) labelsForVolume(arguments) (results, error) {
	return results{Labels: map[string]string{
		v1.LabelTopologyRegion: c.region,
		v1.LabelTopologyZone:   c.zone,
	}}, nil
}

// volumeLabeler is added to a provider when PVLabeler is served.
type volumeLabeler struct{ labels *provider }

// GetLabelsForVolume implements cloudprovider.PVLabeler.
func (l volumeLabeler) GetLabelsForVolume(
	ctx context.Context, pv *v1.PersistentVolume,
) (map[string]string, error) {
	var args arguments
	if pv != nil {
		args.Name = pv.Name
	}
	r, err := l.labels.call(ctx, "GetLabelsForVolume", args)
	return r.Labels, err
}
