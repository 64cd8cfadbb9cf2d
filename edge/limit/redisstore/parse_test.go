package redisstore

import "testing"

// TestParseTrims checks that parse removes white space after a password, which is there if the password in
// the URL comes from a file.
func TestParseTrims(t *testing.T) {
	for _, address := range []string{
		"redis://edge:secret@127.0.0.1:6379/1\n", "redis://edge:secret\n@127.0.0.1:6379/1",
		" redis://edge:secret \r\n@127.0.0.1:6379/1",
	} {
		o, err := parse(address)
		if err != nil || o.Username != "edge" || o.Password != "secret" || o.DB != 1 {
			t.Errorf("%q: %+v, %v", address, o, err)
		}
	}
}
