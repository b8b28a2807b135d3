package election

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	apicoordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// The annotations of a Lease that prove its release. The digest is on a held Lease, and the token
// on a released one.
const (
	releaseDigestAnnotation = "fxccm.dev/release-digest"
	releaseTokenAnnotation  = "fxccm.dev/release-token"
)

// maxForeignBytes is how many bytes of metadata of other clients stay on the Lease. The API server
// limits all annotations of an object to 256 KiB, and etcd limits the object to about 1.5 MiB. A
// renewal must not exceed that.
const maxForeignBytes = 64 << 10

// releaseProof proves that this process, and not another client, has released the lease: only it
// knows the random token whose SHA-256 digest is on the lease while it holds it. It is safe for
// concurrent use.
type releaseProof struct {
	mu    sync.Mutex
	token string
	// isRevealed is set when a release with the token was sent. The next holding needs another one.
	isRevealed bool
}

// mark sets the annotations of a Lease that this process is about to write.
func (p *releaseProof) mark(lease *apicoordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isRelease := ptr.Deref(lease.Spec.HolderIdentity, "") == ""
	if p.token == "" || p.isRevealed && !isRelease {
		p.token, p.isRevealed = rand.Text(), false
	}
	if lease.ObjectMeta.Size() > maxForeignBytes {
		lease.ObjectMeta = metav1.ObjectMeta{
			Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID,
			ResourceVersion: lease.ResourceVersion,
		}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, releaseDigestAnnotation)
	delete(lease.Annotations, releaseTokenAnnotation)
	if isRelease {
		p.isRevealed = true
		lease.Annotations[releaseTokenAnnotation] = p.token
	} else {
		lease.Annotations[releaseDigestAnnotation] = digestOf(p.token)
	}
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// leaseState is what an election reads from a Lease.
type leaseState struct {
	record resourcelock.LeaderElectionRecord
	// version is the resource version of the Lease, if it is known.
	version string
	// releaseDigest and releaseToken are the annotations of the Lease, or empty.
	releaseDigest, releaseToken string
}

func stateOf(lease *apicoordinationv1.Lease) leaseState {
	return leaseState{
		record:        *resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec),
		version:       lease.ResourceVersion,
		releaseDigest: lease.Annotations[releaseDigestAnnotation],
		releaseToken:  lease.Annotations[releaseTokenAnnotation],
	}
}

// isReleaseBy reports whether the lease was released by the process that published the digest. A
// lease without a holder is not enough: any client with the permission can write one, while the
// holder still leads.
func (s *leaseState) isReleaseBy(digest string) bool {
	return s.record.HolderIdentity == "" && s.releaseToken != "" &&
		digestOf(s.releaseToken) == digest
}

// provingLeases is a client of Leases that adds the proof of release to what it writes, and keeps
// the annotations of the last Lease that it has read. Its requests must not be concurrent.
type provingLeases struct {
	coordinationv1.LeasesGetter
	proof *releaseProof
	read  leaseState
}

// Leases implements coordinationv1.LeasesGetter.
func (p *provingLeases) Leases(namespace string) coordinationv1.LeaseInterface {
	return provingLease{p.LeasesGetter.Leases(namespace), p}
}

type provingLease struct {
	coordinationv1.LeaseInterface
	of *provingLeases
}

// Get implements coordinationv1.LeaseInterface.
func (l provingLease) Get(
	ctx context.Context, name string, opts metav1.GetOptions,
) (*apicoordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, opts)
	if err == nil {
		l.of.read = stateOf(lease)
	}
	return lease, err
}

// Create implements coordinationv1.LeaseInterface.
func (l provingLease) Create(
	ctx context.Context, lease *apicoordinationv1.Lease, opts metav1.CreateOptions,
) (*apicoordinationv1.Lease, error) {
	l.of.proof.mark(lease)
	return l.LeaseInterface.Create(ctx, lease, opts)
}

// Update implements coordinationv1.LeaseInterface.
func (l provingLease) Update(
	ctx context.Context, lease *apicoordinationv1.Lease, opts metav1.UpdateOptions,
) (*apicoordinationv1.Lease, error) {
	l.of.proof.mark(lease)
	return l.LeaseInterface.Update(ctx, lease, opts)
}
