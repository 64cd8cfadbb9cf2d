package query

// ParamError says which parameter is invalid, what is wrong and what it takes.
// All of them are made beforehand. A message never repeats what was sent, which
// may be anything, a key included; it is ASCII that stands in a JSON string as
// it is.
type ParamError struct {
	Param   string
	Message string
}

func (e *ParamError) Error() string { return e.Message }

func paramError(param, wrong, takes string) *ParamError {
	return &ParamError{Param: param, Message: param + ": " + wrong + "; it takes " + takes}
}

const (
	notInt      = "not an integer within 64 bits"
	tooMany     = "more than 100 values"
	takesIDs    = "up to 100 integers separated by commas"
	takesTexts  = "up to 100 texts separated by commas"
	takesPage   = "an integer of 1 or more"
	takesSize   = "an integer up to 100, where 0 and below mean 20"
	takesSize1  = "an integer from 1 to 100"
	takesOffset = "an integer from 0 to 100000"
)

var (
	errIDInt       = paramError("id", "a value is not an integer within 64 bits", takesIDs)
	errIDCount     = paramError("id", tooMany, takesIDs)
	errSymbolCount = paramError("symbol", tooMany, takesTexts)
	errSlugCount   = paramError("slug", tooMany, takesTexts)
	errFieldsCount = paramError("fields", tooMany, "up to 100 names separated by commas, of which links is known")

	errPageInt   = paramError("page", notInt, takesPage)
	errPageRange = paramError("page", "below 1", takesPage)

	errSizeInt     = paramError("size", notInt, takesSize)
	errSizeRange   = paramError("size", "over 100", takesSize)
	errLimitInt    = paramError("limit", notInt, takesSize)
	errLimitRange  = paramError("limit", "over 100", takesSize)
	errOffsetInt   = paramError("offset", notInt, takesOffset)
	errOffsetRange = paramError("offset", "outside 0 to 100000", takesOffset)

	errExchangeSizeInt    = paramError("size", notInt, takesSize1)
	errExchangeSizeRange  = paramError("size", "outside 1 to 100", takesSize1)
	errExchangeLimitInt   = paramError("limit", notInt, takesSize1)
	errExchangeLimitRange = paramError("limit", "outside 1 to 100", takesSize1)

	errBy = paramError("by", "not a board that is served", "gainers")
)

func sortError(keys string) *ParamError {
	return paramError("sort", "not a known key with a known direction", keys+", alone or followed by :asc or :desc")
}
