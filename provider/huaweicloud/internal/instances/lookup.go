package instances

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2/model"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// maxIDs is the number of IDs that one request of ECS may name.
const maxIDs = 100

// question is a call for an instance. No server and no error: ECS denied it.
type question struct {
	id     string
	server *server
	at     time.Time
	err    error
}

// answer serves a batch of calls. It adds other nodes to each request, because upstream calls for
// one node after the other.
func (i *Instances) answer(ctx context.Context, questions []*question) {
	ids := map[string]bool{}
	for _, q := range questions {
		ids[q.id] = true
	}
	i.fill(ids)
	at := i.config.Clock.Now()
	found, errs := i.list(ctx, slices.Collect(maps.Keys(ids)))
	for _, q := range questions {
		q.at = at
		if q.err = errs[q.id]; q.err != nil {
			continue
		}
		if q.server = found[q.id]; q.server == nil {
			i.askDirectly(ctx, q)
		}
	}
}

// fill adds nodes whose records are old.
func (i *Instances) fill(ids map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	oldest := i.config.Clock.Now().Add(-statusAge)
	for _, id := range i.knownIDs() {
		if len(ids)%maxIDs == 0 {
			return
		}
		if !i.records[id].at.After(oldest) {
			ids[id] = true
		}
	}
}

// list requests instances by ID, and records those that exist. An ID has an error if its request
// failed.
func (i *Instances) list(ctx context.Context,
	ids []string,
) (found map[string]*server, errs map[string]error) {
	found, errs = map[string]*server{}, map[string]error{}
	slices.Sort(ids)
	for chunk := range slices.Chunk(ids, maxIDs) {
		at := i.config.Clock.Now()
		joined, limit := strings.Join(chunk, ","), int32(maxIDs)
		servers, err := client.Get(fmt.Sprintf("list %d ECS instances", len(chunk)),
			i.config.Client.ECS(ctx).ListServersDetails,
			&model.ListServersDetailsRequest{ServerId: &joined, Limit: &limit},
			func(r *model.ListServersDetailsResponse) *[]model.ServerDetail { return r.Servers })
		if err != nil {
			for _, id := range chunk {
				errs[id] = err
			}
			continue
		}
		for _, detail := range servers {
			// An instance that does not exist has an entry with an ID and nulls.
			if s := newServer(detail); s.exists() {
				found[s.id] = s
			}
		}
		i.remember(chunk, found, at)
	}
	return found, errs
}

func (i *Instances) remember(chunk []string, found map[string]*server, at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range chunk {
		if s := found[id]; s != nil {
			i.records[id] = record{s, at}
			delete(i.unlisted, id)
		} else {
			delete(i.records, id)
			i.unlisted[id] = true
		}
	}
	for id, r := range i.records {
		if at.Sub(r.at) > 2*metadataAge {
			delete(i.records, id)
		}
	}
}

// askDirectly confirms that a list lacks an instance: only a response with 404 is a denial.
func (i *Instances) askDirectly(ctx context.Context, q *question) {
	q.at = i.config.Clock.Now()
	detail, err := client.Get("get ECS instance "+q.id, i.config.Client.ECS(ctx).ShowServer,
		&model.ShowServerRequest{ServerId: q.id},
		func(r *model.ShowServerResponse) *model.ServerDetail { return r.Server })
	switch {
	case client.IsNotFound(err):
	case err != nil:
		q.err = err
	default:
		if s := newServer(detail); s.exists() {
			q.server = s
		}
	}
}

// listKnown ensures that all known instances were listed at the given time or later.
func (i *Instances) listKnown(ctx context.Context, since time.Time) error {
	i.mu.Lock()
	isRecent := !i.listed.Before(since) && !i.listed.IsZero()
	ids := i.knownIDs()
	i.mu.Unlock()
	if isRecent {
		return nil
	}
	at := i.config.Clock.Now()
	_, errs := i.list(ctx, ids)
	for _, err := range errs {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listed = at
	maps.DeleteFunc(i.unlisted, func(id string, _ bool) bool { return !slices.Contains(ids, id) })
	return nil
}
