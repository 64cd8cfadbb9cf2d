package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"
)

// The collections that only the CoinGecko-compatible API under /api/v3/ needs. The package
// documentation describes them.
const (
	CoinsCollection     = "coins"
	ContractsCollection = "contracts"
	PlatformsCollection = "platforms"
	FiguresCollection   = "figures"
	RatesCollection     = "rates"
	LeadersCollection   = "leaders"
)

// IsDirectory reports whether the rows of a collection depend only on assets and chains, not on
// prices or other figures.
func IsDirectory(collection string) bool {
	return collection == CoinsCollection || collection == ContractsCollection || collection == PlatformsCollection
}

// ContractsSort names the only view of ContractsCollection.
const ContractsSort = "address"

const (
	itemField      = `,"item":`
	platformsField = `,"platforms":`
)

// AppendCoin appends the beginning of a row of CoinsCollection or PlatformsCollection, up to the
// item. The caller appends the item and a closing brace.
func AppendCoin(dst []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"id":`...), id, 10), itemField...)
}

// CoinItem returns the item in a row of CoinsCollection, PlatformsCollection or a day of changes.
// It does not parse the item. To get the item with platforms, remove its last byte and append the
// row's tail.
func CoinItem(row []byte) []byte { return row[bytes.IndexByte(row, ',')+len(itemField) : len(row)-1] }

// CoinPlatforms returns the JSON object of platforms and addresses in a tail of CoinsCollection.
func CoinPlatforms(tail []byte) []byte { return tail[len(platformsField) : len(tail)-1] }

// evmDigits is the number of hexadecimal digits after 0x in an address of the Ethereum virtual
// machine.
const evmDigits = 40

// AppendAddress appends a contract's address in the form in which addresses are compared byte by
// byte. It converts 0x and 40 hexadecimal digits to lower case and leaves any other address
// unchanged.
func AppendAddress(dst []byte, address []byte) []byte {
	from := len(dst)
	dst = append(dst, address...)
	digits, evm := bytes.CutPrefix(dst[from:], []byte("0x"))
	if !evm || len(digits) != evmDigits {
		return dst
	}
	for _, c := range digits {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return dst
		}
	}
	for i := range digits {
		digits[i] |= 0x20 // The digits 0 to 9 already have this bit.
	}
	return dst
}

// AppendContractKey appends the sort key of a contract in the view of ContractsCollection: the XXH3
// hash, in hexadecimal digits, of the address as AppendAddress writes it, seeded with the hash of
// the platform's id. Different contracts may have the same key, so a caller must compare the
// platforms of the asset that it finds.
func AppendContractKey(dst []byte, platform string, address []byte) []byte {
	from := len(dst)
	dst = AppendAddress(dst, address)
	hash := xxh3.HashSeed(dst[from:], xxh3.HashString(platform))
	return strconv.AppendUint(dst[:from], hash, 16)
}

var platformsTail = []byte(platformsField)

// contractSum returns the sum of the hashes of all rows that the view of contracts must have for
// the asset with this id and tail.
func contractSum(id uint64, tail []byte) (sum uint64, err error) {
	var platforms map[string]string
	if err := json.Unmarshal(CoinPlatforms(tail), &platforms); err != nil {
		return 0, fmt.Errorf("platforms of id %d: %w", id, err)
	}
	row := AppendSearchRow(nil, id, 0)
	for platform, address := range platforms {
		sum += hashWord(AppendContractKey(nil, platform, []byte(address)), row)
	}
	return sum, nil
}

// FigureCount is the number of figures in a row of FiguresCollection: the price change over 24
// hours, and the circulating, total and maximum supply.
const FigureCount = 4

const figuresField = `,"figures":[`

// AppendFigures appends the beginning of a row of FiguresCollection, up to its figures. The caller
// appends the figures, separated by commas, and then calls AppendCovered.
func AppendFigures(dst []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"id":`...), id, 10), figuresField...)
}

// Figures returns the figures in a row of FiguresCollection, without quotation marks. A figure that
// is null is nil.
func Figures(row []byte) (f [FigureCount][]byte) {
	_, rest, _ := bytes.Cut(row, []byte(figuresField))
	rest, _, _ = bytes.Cut(rest, []byte("]"))
	for i := range f {
		var one []byte
		one, rest, _ = bytes.Cut(rest, []byte(","))
		if len(one) > 0 && one[0] == '"' {
			f[i] = one[1:bytes.LastIndexByte(one, '"')]
		}
	}
	return f
}

const coveredField = `],"covered":`

// AppendCovered appends the end of a row of FiguresCollection. Bit i of windows is set if window i
// of percent_change is covered.
func AppendCovered(dst []byte, windows uint64) []byte {
	return append(strconv.AppendUint(append(dst, coveredField...), windows, 10), '}')
}

// Covered returns the bits that AppendCovered wrote.
func Covered(row []byte) uint64 {
	_, rest, _ := bytes.Cut(row, []byte(coveredField))
	n, _ := strconv.ParseUint(string(bytes.TrimSuffix(rest, []byte("}"))), 10, 64)
	return n
}

// checkFigures returns an error if the row belongs to FiguresCollection or RatesCollection and has
// a value that is not a decimal. rest is the part of the row after the id. checkFigures recognizes
// these two collections by their first member, and returns nil for rows of other collections.
func checkFigures(rest []byte) error {
	isRate := bytes.HasPrefix(rest, []byte(`"code":`))
	if !isRate && !bytes.HasPrefix(rest, []byte(figuresField[1:])) {
		return nil
	}
	var row struct {
		USD     string    `json:"usd"`
		Figures []*string `json:"figures"`
	}
	if err := json.Unmarshal(append([]byte("{"), rest...), &row); err != nil {
		return err
	}
	if isRate {
		row.Figures = []*string{&row.USD, nil, nil, nil}
	}
	if len(row.Figures) != FigureCount || row.Figures[0] == nil {
		return fmt.Errorf("want %d figures, the first one not null", FigureCount)
	}
	for i, value := range row.Figures {
		if value != nil && !isDecimal(*value, 18) {
			return fmt.Errorf("figure %d is not a decimal", i+1)
		}
	}
	return nil
}
