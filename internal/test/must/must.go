// Package must ends a test when an operation fails:
//
//	m := must.Get(artifacts.ReadManifest(ctx, store, ref))(t)
package must

// TB has the methods that are needed to end a test or a check of a property.
type TB interface {
	Helper()
	Fatal(...any)
}

// OK ends the test if err is not nil.
func OK(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends its test if err is not nil.
func Get[V any](v V, err error) func(t TB) V {
	return func(t TB) V {
		t.Helper()
		OK(t, err)
		return v
	}
}
