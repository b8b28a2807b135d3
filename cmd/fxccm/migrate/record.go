package migrate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack"
)

// recordName is a ConfigMap in OCCM's namespace; a large record has further ones. It exists from
// before the stop of OCCM until the migration is verified, so that a repeated apply compares with
// the same state.
const recordName = "fxccm-migration"

const (
	recordKey = "record.json.gz"
	// recordParts is how many ConfigMaps have the record.
	recordParts = "parts"
)

// maxRecordPart is the size of a part. The API server refuses a ConfigMap with more than 1 MiB.
const maxRecordPart = 900 << 10

// partName is the name of a part of the record. The first has the number of all.
func partName(part int) string {
	if part == 0 {
		return recordName
	}
	return fmt.Sprintf("%s-%d", recordName, part)
}

// record is the state before the migration. It has no secrets.
type record struct {
	// Replicas is the number of replicas that fxccm gets.
	Replicas int32 `json:"replicas"`
	// Verified are the UIDs of the Services whose objects are compared.
	Verified []string           `json:"verified"`
	Before   openstack.Snapshot `json:"before"`
}

// newRecord reads OpenStack.
func (m *migration) newRecord(ctx context.Context) (record, error) {
	r := record{Replicas: m.occm.replicas}
	if m.occm.kind == daemonSetKind {
		r.Replicas = min(r.Replicas, 2) // fxccm does not use more
	}
	r.Replicas = max(r.Replicas, 1)
	for i, plan := range m.plans {
		if plan.Outcome == NoChange || plan.Outcome == TagsOnly {
			r.Verified = append(r.Verified, string(m.world.Services[i].UID))
		}
	}
	var err error
	r.Before, err = m.snapshot(ctx, r.Verified)
	return r, err
}

// snapshot reads the objects of the verified Services, and those without a Service.
func (m *migration) snapshot(
	ctx context.Context, verified []string,
) (openstack.Snapshot, error) {
	if !m.conf.LoadBalancer.Enabled {
		return openstack.Snapshot{}, nil
	}
	var scope openstack.SnapshotScope
	for i, service := range m.world.Services {
		id := ""
		if i < len(m.plans) {
			id = m.plans[i].LoadBalancer
		}
		if slices.Contains(verified, string(service.UID)) {
			scope.Services = append(scope.Services, service)
			scope.LoadBalancers = append(scope.LoadBalancers, id)
			continue
		}
		scope.ExceptServices = append(scope.ExceptServices, service)
		scope.ExceptLoadBalancers = append(scope.ExceptLoadBalancers, id)
	}
	previewer, err := newPreviewer(*m.conf, m.settings.Config, m.world)
	if err != nil {
		return nil, err
	}
	defer previewer.Close()
	snapshot, err := previewer.Snapshot(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("read OpenStack: %w", err)
	}
	return snapshot, nil
}

func (m *migration) writeRecord(ctx context.Context, r record) error {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := errors.Join(json.NewEncoder(writer).Encode(r), writer.Close()); err != nil {
		return err
	}
	if err := m.deleteRecord(ctx); err != nil {
		return err
	}
	parts := slices.Collect(slices.Chunk(packed.Bytes(), maxRecordPart))
	for i, content := range slices.Backward(parts) { // with the first part, the record exists
		if err := m.writePart(ctx, partName(i), &v1.ConfigMap{
			Data:       map[string]string{recordParts: strconv.Itoa(len(parts))},
			BinaryData: map[string][]byte{recordKey: content},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (m *migration) writePart(ctx context.Context, name string, part *v1.ConfigMap) error {
	part.Name, part.Labels = name, map[string]string{"app.kubernetes.io/part-of": fxccmName}
	part.Annotations = map[string]string{fromAnnotation: m.occm.String()}
	client := m.CoreV1().ConfigMaps(m.occm.Namespace)
	_, err := client.Create(ctx, part, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.Update(ctx, part, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", name, err)
	}
	return nil
}

// findRecord returns nil if no record exists. The error is a [foreignError] if the record is not
// for this OCCM.
func (m *migration) findRecord(ctx context.Context) (*v1.ConfigMap, error) {
	first, err := m.readPart(ctx, recordName)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return first, m.checkFrom("ConfigMap", first)
}

// readRecord returns nil if there is no migration to continue.
func (m *migration) readRecord(ctx context.Context) (*record, error) {
	first, err := m.findRecord(ctx)
	if first == nil || err != nil {
		return nil, err
	}
	packed := first.BinaryData[recordKey]
	for i := 1; i < countParts(first); i++ {
		part, err := m.readPart(ctx, partName(i))
		if err != nil {
			return nil, err
		}
		packed = append(packed, part.BinaryData[recordKey]...)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", recordName, err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", recordName, err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", recordName, err)
	}
	return &r, nil
}

func (m *migration) readPart(ctx context.Context, name string) (*v1.ConfigMap, error) {
	part, err := m.CoreV1().ConfigMaps(m.occm.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	return part, nil
}

// countParts returns how many parts a record has; 1 if an earlier version wrote it.
func countParts(first *v1.ConfigMap) int {
	n, _ := strconv.Atoi(first.Data[recordParts])
	return max(n, 1)
}

// deleteRecord deletes the first part first: without it there is no record.
func (m *migration) deleteRecord(ctx context.Context) error {
	first, err := m.findRecord(ctx)
	if first == nil || err != nil {
		return err
	}
	for i := range countParts(first) {
		err := m.CoreV1().ConfigMaps(m.occm.Namespace).Delete(ctx, partName(i),
			metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete ConfigMap %s: %w", partName(i), err)
		}
	}
	return nil
}
