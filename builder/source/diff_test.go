package source

import (
	"fmt"
	"reflect"
	"testing"
)

// diff says where got differs from want, "" when nowhere. Nil and empty slices
// are the same.
func diff(got, want any) string {
	return diffValues("", reflect.ValueOf(got), reflect.ValueOf(want))
}

func diffValues(path string, got, want reflect.Value) string {
	switch got.Kind() {
	case reflect.Pointer:
		if got.IsNil() != want.IsNil() {
			return fmt.Sprintf("%s: nil is %v, want %v", path, got.IsNil(), want.IsNil())
		}
		if !got.IsNil() {
			return diffValues(path, got.Elem(), want.Elem())
		}
		return ""
	case reflect.Slice:
		if got.Len() != want.Len() {
			return fmt.Sprintf("%s: %d elements, want %d: %v, want %v", path, got.Len(), want.Len(), got, want)
		}
		for i := range got.Len() {
			if d := diffValues(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Struct:
		if got.Type().Name() == "Time" {
			break
		}
		for i := range got.NumField() {
			if d := diffValues(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i)); d != "" {
				return d
			}
		}
		return ""
	}
	if g, w := got.Interface(), want.Interface(); g != w {
		return fmt.Sprintf("%s: %#v, want %#v", path, g, w)
	}
	return ""
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if d := diff(got, want); d != "" {
		t.Error(d)
	}
}
