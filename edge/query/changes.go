package query

import (
	"bytes"
	"encoding/binary"

	"example.com/marketdata/artifacts"
)

// Change contains the parameters of /changes.
type Change struct {
	// Since is a time in Unix seconds. Only later changes match. HasSince reports whether it was sent.
	Since    int64
	HasSince bool
	// Collections and Kinds have a bit for each matching element of artifacts.ChangeCollections and
	// artifacts.ChangeKinds. HasCollection and HasKind report whether the filter was sent.
	Collections, Kinds     uint8
	HasCollection, HasKind bool
}

// Filtered reports whether any filter was sent.
func (c *Change) Filtered() bool { return c.HasCollection || c.HasKind }

// changes parses the parameters that are specific to /changes.
func (q *Query) changes(p *params) *ParamError {
	c := &q.Change
	if v := p.value[paramSince]; len(v) > 0 {
		var ok bool
		c.HasSince = true
		if c.Since, ok = parseMoment(q.unescape(v)); !ok {
			return errSince
		}
	}
	for _, filter := range [...]struct {
		param int
		names *[4]string
		sent  *bool
		set   *uint8
		err   *ParamError
	}{
		{paramCollection, &artifacts.ChangeCollections, &c.HasCollection, &c.Collections, errCollection},
		{paramKind, &artifacts.ChangeKinds, &c.HasKind, &c.Kinds, errKind},
	} {
		v := p.value[filter.param]
		if *filter.sent = len(v) > 0; !*filter.sent {
			continue
		}
		csv := q.fold(v)
		if bytes.Count(csv, comma) >= maxValues {
			return filter.err
		}
		for more := true; more; {
			var name []byte
			name, csv, more = bytes.Cut(csv, comma)
			i := Named(filter.names, name)
			if i < 0 && len(name) > 0 {
				return filter.err
			}
			if i >= 0 {
				*filter.set |= 1 << i
			}
		}
	}
	return nil
}

// Named returns the index of name in names, or -1 if names does not contain it.
func Named(names *[4]string, name []byte) int {
	for i := range names {
		if string(name) == names[i] {
			return i
		}
	}
	return -1
}

// append appends the parameters to a cache key.
func (c *Change) append(dst []byte) []byte {
	var flags byte
	for i, set := range [...]bool{c.HasSince, c.HasCollection, c.HasKind} {
		if set {
			flags |= 1 << i
		}
	}
	dst = append(dst, flags, c.Collections, c.Kinds)
	if c.HasSince {
		dst = binary.AppendVarint(dst, c.Since)
	}
	return dst
}
