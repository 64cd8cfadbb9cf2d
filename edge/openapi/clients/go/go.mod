module example.com/marketdata/edge/openapi/clients/go

go 1.23.0
