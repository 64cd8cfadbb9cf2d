package query

import "fmt"

// ParamError says which parameter is invalid, what is wrong and what it takes
// (INTERFACE.md, "Errors"), of a list which element by its number, from 1. All
// of them are made beforehand. A message never repeats what was sent, which may
// be anything, a key included; it is ASCII that stands in a JSON string as it
// is.
type ParamError struct {
	Param   string
	Message string
}

func (e *ParamError) Error() string { return e.Message }

func paramError(param, wrong, takes string) *ParamError {
	return &ParamError{Param: param, Message: param + ": " + wrong + "; it takes " + takes}
}

const (
	notInt      = "not an integer in decimal digits, or out of range"
	tooMany     = "more than 100 elements, empty and repeated ones counted"
	takesIDs    = "up to 100 integers separated by commas"
	takesPage   = "an integer from 1 on"
	takesSize   = "an integer up to 100, where 0 and below mean 20"
	takesSize1  = "an integer from 1 to 100"
	takesSize20 = "an integer up to 20, where 0 and below mean 20"
	takesOffset = "an integer from 0 to 100000"
)

// errIDElement is what is wrong with an element of id, by its place from 0.
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

	errHistoryLengths = lengthErrors{newIntegerErrors("size", "over 20", takesSize20),
		newIntegerErrors("limit", "over 20", takesSize20)}

	errBy     = paramError("by", "not a board that is served", "gainers")
	errWindow = paramError("window", "not a window that is served", "24h, 7d, 30d, 90d or 1y")
	errQ      = paramError("q", "missing, blank or too long", "1 to 64 bytes, at most eight words")
	// errNoneAsked: history is that of assets.
	errNoneAsked = &ParamError{Param: "id", Message: "id: name at least one asset, by id, slug or symbol"}
)

// integerErrors are those of a parameter that is one integer.
type integerErrors struct{ notInt, outside *ParamError }

func newIntegerErrors(param, outside, takes string) integerErrors {
	return integerErrors{paramError(param, notInt, takes), paramError(param, outside, takes)}
}

// lengthErrors are those of the two parameters that say how long a page is.
type lengthErrors struct{ size, limit integerErrors }

func sortError(keys string) *ParamError {
	return paramError("sort", "not a known key with a known direction", keys+", alone or followed by :asc or :desc")
}

// errSortMarkets is for an endpoint that has fewer sort keys than /markets, which has this one.
var errSortMarkets = paramError("sort", "not a sort key of this endpoint",
	"id, name, symbol or slug; /openapi/v1/markets has the same quotes in this order")
