package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

const (
	// recordName is the name of the ConfigMap in kube-system with the record.
	recordName = "fxccm-routes"
	// recordAge is the interval at which an unchanged record is written again: another client may
	// have deleted it.
	recordAge = time.Hour
	// recordPause is the interval between attempts while the API server refuses the record.
	recordPause = 5 * time.Minute
	// recordTimeout limits how long an API server that does not answer delays routes.
	recordTimeout = 10 * time.Second
)

// record keeps the routes of the cluster and their nodes in a ConfigMap, with a key for each
// router, so that the next process recognizes the routes of nodes that were deleted meanwhile.
//
// It is a hint: anyone with access to the ConfigMap can change it, so [occupancy] must confirm each
// entry. Without it, routes are served all the same.
type record struct {
	kube     func() (kubernetes.Interface, error)
	routerID string
	clock    clock.PassiveClock
	log      logr.Logger
	trouble  *trouble.Report
	// learn is called once with the entries that an earlier process stored.
	learn func(map[route]string)
	// wanted returns the entries to store.
	wanted func() map[route]string

	// busy is held during a request. It protects the fields below.
	busy   *semaphore.Weighted
	client kubernetes.Interface
	// stored is the text in the ConfigMap. It is valid if isRead.
	stored    string
	storedAt  time.Time
	isRead    bool
	isFailing bool
	retryAt   time.Time
}

// read reads the record, once.
func (r *record) read(ctx context.Context) { r.do(ctx, r.readOnce) }

// write writes the record if it differs from the wanted one, or is old.
func (r *record) write(ctx context.Context) { r.do(ctx, r.writeChange) }

// do logs the first of consecutive failures. The operation is tried again after a pause.
func (r *record) do(ctx context.Context, operation func(context.Context) error) {
	if r.busy.Acquire(ctx, 1) != nil {
		return // the caller is gone
	}
	defer r.busy.Release(1)
	if r.kube == nil || r.clock.Now().Before(r.retryAt) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := operation(limited); err != nil && ctx.Err() == nil {
		r.retryAt = r.clock.Now().Add(recordPause)
		if !r.isFailing {
			r.log.Error(err, "Routes are not recorded; routes of nodes that are deleted while no "+
				"Manager leads will stay in the router", "configMap", recordName,
				"router", r.routerID, "retryAfter", recordPause.String())
		}
		r.isFailing = true
	}
}

func (r *record) readOnce(ctx context.Context) error {
	if r.isRead {
		return nil
	}
	if r.client == nil {
		client, err := r.kube()
		if err != nil {
			return err
		}
		r.client = client
	}
	found, err := r.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, recordName,
		metav1.GetOptions{})
	r.trouble.Wrote("get configmaps", recordName, err)
	switch {
	case err == nil:
		r.stored = found.Data[r.routerID]
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the record of routes: %w", err)
	}
	r.isRead, r.isFailing, r.storedAt = true, false, r.clock.Now()
	r.learn(parseRecord(r.stored))
	return nil
}

func (r *record) writeChange(ctx context.Context) error {
	if err := r.readOnce(ctx); err != nil {
		return err
	}
	text := formatRecord(r.wanted())
	isOld := text != "" && r.clock.Since(r.storedAt) >= recordAge
	if text == r.stored && !isOld {
		return nil
	}
	if err := r.put(ctx, text); err != nil {
		return fmt.Errorf("write the record of routes: %w", err)
	}
	r.stored, r.isFailing, r.storedAt = text, false, r.clock.Now()
	return nil
}

// put writes only the key of the router: the routers of other regions have keys of their own.
func (r *record) put(ctx context.Context, text string) error {
	configMaps := r.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	value := &text
	if text == "" {
		value = nil // removes the key
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]*string{r.routerID: value}})
	if err != nil {
		return err
	}
	update := func() error {
		_, err := configMaps.Patch(ctx, recordName, types.MergePatchType, patch,
			metav1.PatchOptions{})
		r.trouble.Wrote("patch configmaps", recordName, err)
		return err
	}
	if err = update(); !apierrors.IsNotFound(err) {
		return err
	}
	if text == "" {
		return nil
	}
	_, err = configMaps.Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: recordName},
		Data:       map[string]string{r.routerID: text},
	}, metav1.CreateOptions{})
	r.trouble.Wrote("create configmaps", recordName, err)
	if apierrors.IsAlreadyExists(err) {
		return update()
	}
	return err
}

// formatRecord writes a line for each route: its name and the node.
func formatRecord(routes map[route]string) string {
	lines := make([]string, 0, len(routes))
	for r, node := range routes {
		lines = append(lines, r.String()+" "+node+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// parseRecord is the inverse of formatRecord. It ignores malformed lines.
func parseRecord(text string) map[route]string {
	found := map[route]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 4 {
			continue
		}
		if r, err := parseName(strings.Join(words[:3], " ")); err == nil {
			found[r] = words[3]
		}
	}
	return found
}

// wantedRecord returns the routes of the cluster, and those of an earlier process that are not
// confirmed.
func (r *Routes) wantedRecord() map[route]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.recorded)
	maps.Copy(all, r.known)
	return all
}

func (r *Routes) learnRecord(all map[route]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = all
}

// recordCreations records routes before they are written.
func (r *Routes) recordCreations(ctx context.Context, creations []*step) {
	if len(creations) == 0 {
		return
	}
	r.mu.Lock()
	for _, s := range creations {
		for _, c := range s.calls {
			r.known[c.route] = c.node
		}
	}
	r.mu.Unlock()
	r.record.write(ctx)
}
