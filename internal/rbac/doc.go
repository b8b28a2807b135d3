// Package rbac compares the RBAC rules that the project ships with the requests to the API server:
// [Load] reads the manifests, [Manifests.Apply] applies them to a control plane, and [Compare]
// lists the unused rules and the denied requests.
//
// A suite runs the program under the identity that the manifests bind their roles to, and compares
// at its end:
//
//	manifests, err := rbac.Load("deploy/base/rbac.yaml")
//	err = manifests.Apply(ctx, admin)
//	... the tests ...
//	granted, err := manifests.Permissions(user)
//	records, err := cp.Audit().All(controlplane.ByUser(user))
//	report := rbac.Compare(granted, records, user)
package rbac
