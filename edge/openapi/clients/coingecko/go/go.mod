// A module of its own: nothing of the project uses the clients.
module example.com/marketdata/edge/openapi/clients/coingecko/go

go 1.26.8

require (
	github.com/JulianToledano/goingecko/v3 v3.0.3
	github.com/superoo7/go-gecko v1.0.0
)
