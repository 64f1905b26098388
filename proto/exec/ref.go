package exec

import "fmt"

// RefKind is what a reference refers to.
type RefKind string

// The kinds of references.
const (
	RefBinding    RefKind = "binding"
	RefRun        RefKind = "run"
	RefPermission RefKind = "permission"
	RefHistory    RefKind = "history"
)

// Ref is a scoped reference: it names one object of one instance of one
// runtime. Holders treat ID as opaque.
type Ref struct {
	Kind          RefKind `json:"kind"`
	ExecutorID    string  `json:"executorId"`
	InstanceID    string  `json:"instanceId"`
	IntegrationID string  `json:"integrationId"`
	ID            string  `json:"id"`
}

// IsZero reports whether r refers to nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// Check fails with [CodeStaleResource] unless r has the scope and the kind of
// want; the ids of the objects are not compared.
func (r Ref) Check(want Ref) error {
	r.ID, want.ID = "", ""
	if r == want {
		return nil
	}
	if r.Kind != want.Kind {
		return Errorf(CodeInvalid, "a %s reference was expected, this is %q", want.Kind, r.Kind)
	}
	return Errorf(CodeStaleResource, "this %s belongs to an earlier run of the executor", want.Kind).
		WithHint("Start the operation again.")
}

// String returns a short form for logs.
func (r Ref) String() string { return fmt.Sprintf("%s/%s/%s", r.IntegrationID, r.Kind, r.ID) }
