package edge

import (
	"net/http"
	"strconv"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
)

// keyHeaders are the headers in which programs for CoinGecko send their key, beside X-Api-Key.
var keyHeaders = []string{"x-cg-demo-api-key", "x-cg-pro-api-key"}

// coins serves package coingecko (COINGECKO.md).
func coins() *server.Dialect {
	var names []string
	for e := range coingecko.Endpoint(coingecko.Endpoints) {
		names = append(names, e.Name())
	}
	return &server.Dialect{
		Prefix: coingecko.Prefix, Endpoints: names, IsKey: coingecko.IsKey, AppendError: appendCoinError,
		EndpointAt: func(path []byte) (int, bool) {
			e, ok := coingecko.EndpointAt(path)
			return int(e), ok
		},
		Parse: func(used reply.Composer, e int, path, query []byte) (reply.Composer, *reply.Refusal) {
			q, ok := used.(*coingecko.Query)
			if !ok {
				q = new(coingecko.Query)
			}
			return q, q.Parse(coingecko.Endpoint(e), path, query)
		},
		NotServed: "this endpoint is not served here; " + coingecko.Prefix + "openapi.json lists those that are",
	}
}

// appendCoinError appends an error as CoinGecko words it.
func appendCoinError(dst []byte, status int, message string) []byte {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone:
		return append(append(append(dst, `{"error":"`...), message...), `"}`...)
	}
	dst = strconv.AppendInt(append(dst, `{"status":{"error_code":`...), int64(status), 10)
	return append(append(append(dst, `,"error_message":"`...), message...), `"}}`...)
}
