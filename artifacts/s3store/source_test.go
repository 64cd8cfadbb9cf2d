package s3store

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// role is a provider whose credentials are valid for an hour and are renewed after four fifths of
// it.
type role struct {
	credentials.Expiry
	asked int
	away  bool
}

func (r *role) RetrieveWithCredContext(*credentials.CredContext) (v credentials.Value, err error) {
	if r.asked++; r.away {
		return v, errors.New("no answer")
	}
	v.AccessKeyID, v.SecretAccessKey = fmt.Sprint("key", r.asked), "secret"
	v.Expiration = time.Now().Add(time.Hour)
	r.SetExpiration(v.Expiration, credentials.DefaultExpiryWindow)
	return v, nil
}

func (r *role) Retrieve() (credentials.Value, error) { return r.RetrieveWithCredContext(nil) }

// TestRefresh checks that a role's credentials are renewed before they expire, that they stay in
// use until then if the renewal fails, and that the role is asked at most every ten seconds, even
// if a store refuses the credentials.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &role{}
		c := credentials.New(&source{next: r})
		key := func() string { return must.Get(c.GetWithContext(nil))(t).AccessKeyID }
		for _, step := range []struct {
			after time.Duration
			away  bool
			key   string
			asked int
		}{
			{0, false, "key1", 1},
			{47 * time.Minute, false, "key1", 1},
			{2 * time.Minute, true, "key1", 2},
			{5 * time.Second, true, "key1", 2},
			{6 * time.Second, true, "key1", 3},
			{10 * time.Minute, false, "key4", 4},
		} {
			time.Sleep(step.after)
			r.away = step.away
			if got := key(); got != step.key || r.asked != step.asked {
				t.Errorf("%v later: %s after %d questions, want %s, %d", step.after, got, r.asked, step.key, step.asked)
			}
		}
		for range 100 {
			c.Expire()
			key()
			time.Sleep(time.Second)
		}
		if r.asked > 4+10 {
			t.Errorf("refused for 100 seconds, the role was asked %d times", r.asked-4)
		}
		r.away = true
		time.Sleep(2 * time.Hour)
		if v, err := c.GetWithContext(nil); !errors.Is(err, artifacts.ErrNoAccess) || v.AccessKeyID != "" {
			t.Errorf("after their end: %q, %v", v.AccessKeyID, err)
		}
	})
}
