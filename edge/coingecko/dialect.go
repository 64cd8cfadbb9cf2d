package coingecko

import (
	"net/http"
	"strconv"

	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
)

// KeyHeaders are the headers, besides X-Api-Key, in which clients of CoinGecko send their API key.
var KeyHeaders = []string{"x-cg-demo-api-key", "x-cg-pro-api-key"}

// Dialect returns the CoinGecko-compatible API (COINGECKO.md) for the public server.
func Dialect() *server.Dialect {
	var names []string
	for e := range Endpoint(Endpoints) {
		names = append(names, e.Name())
	}
	return &server.Dialect{
		Prefix: Prefix, Endpoints: names, IsKey: IsKey, AppendError: appendError,
		EndpointAt: func(path []byte) (int, bool) {
			e, ok := EndpointAt(path)
			return int(e), ok
		},
		Parse: func(used reply.Composer, e int, path, query []byte) (reply.Composer, *reply.Refusal) {
			q, ok := used.(*Query)
			if !ok {
				q = new(Query)
			}
			return q, q.Parse(Endpoint(e), path, query)
		},
		NotServed: "this endpoint is not served here; " + Prefix + "openapi.json lists those that are",
		Unauthorized: "missing, invalid or expired API key: send a key of this service, which a key from CoinGecko is not, " +
			"in the header x-cg-demo-api-key, x-cg-pro-api-key or X-Api-Key, and no second key",
	}
}

// appendError appends an error in CoinGecko's format.
func appendError(dst []byte, status int, message string) []byte {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone:
		return append(append(append(dst, `{"error":"`...), message...), `"}`...)
	}
	dst = strconv.AppendInt(append(dst, `{"status":{"error_code":`...), int64(status), 10)
	return append(append(append(dst, `,"error_message":"`...), message...), `"}}`...)
}
