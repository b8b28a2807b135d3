package informerview

import "k8s.io/apimachinery/pkg/api/meta"

// StripManagedFields is a transform of informers. It drops the managed fields, which no controller
// reads and which are often half of an object.
func StripManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
