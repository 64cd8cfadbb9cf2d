package query

import "fmt"

// ParamError states which parameter is invalid, what is wrong with it, and which values it accepts
// (INTERFACE.md, "Errors"). For ids and times, it gives the position of the invalid element in the list,
// counted from 1. All errors are prepared at startup. A message never repeats what the client sent, which
// could be an API key, and consists of ASCII that needs no escaping in JSON.
type ParamError struct {
	Param   string
	Message string
}

func (e *ParamError) Error() string { return e.Message }

func paramError(param, wrong, takes string) *ParamError {
	return &ParamError{Param: param, Message: param + ": " + wrong + "; it takes " + takes}
}

const (
	notInt       = "not an integer in decimal digits, or out of range"
	tooMany      = "more than 100 elements, empty and repeated ones counted"
	takesIDs     = "up to 100 integers separated by commas"
	takesPage    = "an integer from 1 on"
	takesSize    = "an integer up to 100, where 0 and below mean 20"
	takesSize100 = "an integer up to 100, where 0 and below mean 100"
	takesSize1   = "an integer from 1 to 100"
	takesSize20  = "an integer up to 20, where 0 and below mean 20"
	notTime      = "not a time as in RFC 3339, nor in Unix seconds"
	takesTime    = "a time such as 2026-11-21T10:00:00Z or 1795255200"
	takesTimes   = "1 to 100 times separated by commas, such as 2026-11-21T10:00:00Z or 1795255200"
	takesOffset  = "an integer from 0 to 100000"
)

// errTimeElement contains the error for each element of "time", by index.
var errTimeElement = func() (list [maxTimes]*ParamError) {
	for i := range list {
		list[i] = paramError("time", fmt.Sprintf("element %d is %s", i+1, notTime), takesTimes)
	}
	return list
}()

// errIDElement contains the error for each element of "id", by index.
var errIDElement = func() (list [maxValues]*ParamError) {
	for i := range list {
		list[i] = paramError("id", fmt.Sprintf("element %d is %s", i+1, notInt), takesIDs)
	}
	return list
}()

var (
	errIDCount     = paramError("id", tooMany, takesIDs)
	errSymbolCount = paramError("symbol", tooMany, "up to 100 symbols separated by commas")
	errSlugCount   = paramError("slug", tooMany, "up to 100 slugs separated by commas")

	errCategoryCount = paramError("category", tooMany, "up to 100 slugs separated by commas")
	errChainCount    = paramError("chain", tooMany, "up to 100 slugs separated by commas")
	errLinksCount    = paramError("fields", tooMany, "up to 100 names separated by commas, of which links is known")
	errGroupsCount   = paramError("fields", tooMany, "up to 100 names separated by commas, of which groups is known")

	errPage   = newIntegerErrors("page", "below 1", takesPage)
	errOffset = newIntegerErrors("offset", "outside 0 to 100000", takesOffset)

	errLengths = lengthErrors{newIntegerErrors("size", "over 100", takesSize),
		newIntegerErrors("limit", "over 100", takesSize)}
	errExchangeLengths = lengthErrors{newIntegerErrors("size", "outside 1 to 100", takesSize1),
		newIntegerErrors("limit", "outside 1 to 100", takesSize1)}

	errPricesLengths = lengthErrors{newIntegerErrors("size", "over 100", takesSize100),
		newIntegerErrors("limit", "over 100", takesSize100)}

	errHistoryLengths = lengthErrors{newIntegerErrors("size", "over 20", takesSize20),
		newIntegerErrors("limit", "over 20", takesSize20)}

	errBy     = paramError("by", "not a board that is served", "gainers")
	errWindow = paramError("window", "not a window that is served", "24h, 7d, 30d, 90d, 1y or max")
	errQ      = paramError("q", "missing, blank or too long", "1 to 64 bytes, at most eight words")

	errInterval    = paramError("interval", "not an interval that is served", "1h or 1d")
	errFrom        = paramError("from", notTime, takesTime)
	errTo          = paramError("to", notTime, takesTime)
	errFromAfterTo = paramError("from", "later than to", "a time that is not later than to")
	errTimeMissing = paramError("time", "missing", takesTimes)
	errTimeCount   = paramError("time", tooMany, takesTimes)
	// ErrCandles and ErrPrices mean that the answer would have too many candles or prices.
	ErrCandles = paramError("from", "more than 1000 intervals from there to to",
		"a time that leaves at most 1000 hours, or days with interval=1d; ask for the rest in a request of its own")
	ErrPrices = paramError("time", "more than 1000 prices: that many assets at that many times",
		"fewer times, or the request fewer assets, so that assets times times is at most 1000")

	errSince      = paramError("since", notTime, takesTime)
	errCollection = paramError("collection", "a collection that has no changes, or more than 100",
		"assets, categories, chains and exchanges, separated by commas")
	errKind = paramError("kind", "no kind of change, or more than 100",
		"added, back, changed and removed, separated by commas")

	// errNoneAsked means that a request for history, candles or prices names no asset.
	errNoneAsked = &ParamError{Param: "id", Message: "id: name at least one asset, by id, slug or symbol"}
)

// integerErrors contains the errors for an integer parameter.
type integerErrors struct{ notInt, outside *ParamError }

func newIntegerErrors(param, outside, takes string) integerErrors {
	return integerErrors{paramError(param, notInt, takes), paramError(param, outside, takes)}
}

// lengthErrors contains the errors for "size" and "limit".
type lengthErrors struct{ size, limit integerErrors }

func sortError(keys string) *ParamError {
	return paramError("sort", "not a known key with a known direction", keys+", alone or followed by :asc or :desc")
}

// errSortMarkets is the error for a sort key that only /markets has.
var errSortMarkets = paramError("sort", "not a sort key of this endpoint",
	"id, name, symbol or slug; /openapi/v1/markets has the same quotes in this order")
