package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"
)

// The collections that only the answers below /api/v3/ need (see the package documentation).
const (
	CoinsCollection     = "coins"
	ContractsCollection = "contracts"
	PlatformsCollection = "platforms"
	FiguresCollection   = "figures"
	RatesCollection     = "rates"
	LeadersCollection   = "leaders"
)

// IsDirectory reports whether the rows of a collection depend on assets and chains alone, and on no
// figure of them.
func IsDirectory(collection string) bool {
	return collection == CoinsCollection || collection == ContractsCollection || collection == PlatformsCollection
}

// ContractsSort names the only view of ContractsCollection.
const ContractsSort = "address"

const (
	itemField      = `,"item":`
	platformsField = `,"platforms":`
)

// AppendCoin appends the row of an asset, or of a platform, up to its item, which the caller
// appends and closes with a brace.
func AppendCoin(dst []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"id":`...), id, 10), itemField...)
}

// CoinItem returns the item in a row of CoinsCollection or PlatformsCollection, without reading it.
// An item without its last byte and then the row's tail is the item with platforms.
func CoinItem(row []byte) []byte { return row[bytes.IndexByte(row, ',')+len(itemField) : len(row)-1] }

// CoinPlatforms returns the object of platforms and addresses in a tail of CoinsCollection.
func CoinPlatforms(tail []byte) []byte { return tail[len(platformsField) : len(tail)-1] }

// evmDigits is how many hexadecimal digits an address of the Ethereum virtual machine has behind 0x.
const evmDigits = 40

// AppendAddress appends a contract's address in the form in which addresses compare as bytes: 0x
// and 40 hexadecimal digits in lower case, any other unchanged.
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
		digits[i] |= 0x20 // which digits below ten have
	}
	return dst
}

// AppendContractKey appends the key of a contract in the view of ContractsCollection: the hash XXH3,
// in hexadecimal digits, of the address as AppendAddress writes it, with that of the platform's id as
// its seed. Another contract may have the same, so who finds a row looks into the asset's platforms.
func AppendContractKey(dst []byte, platform string, address []byte) []byte {
	from := len(dst)
	dst = AppendAddress(dst, address)
	hash := xxh3.HashSeed(dst[from:], xxh3.HashString(platform))
	return strconv.AppendUint(dst[:from], hash, 16)
}

var platformsTail = []byte(platformsField)

// contractSum stands for the rows of the view of contracts that an asset needs whose row and tail
// are given: the sum of their hashes.
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

// FigureCount is how many figures a row of FiguresCollection has: the change of the price in 24 hours,
// and the circulating, total and maximum supplies.
const FigureCount = 4

const figuresField = `,"figures":[`

// AppendFigures appends the row of a quote up to its figures, which the caller appends with commas
// between them and closes with AppendCovered.
func AppendFigures(dst []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"id":`...), id, 10), figuresField...)
}

// Figures returns the figures in a row of FiguresCollection, without quotes; nil: it is null.
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

// AppendCovered appends the end of a row of FiguresCollection: the windows that are covered, by bit.
func AppendCovered(dst []byte, windows uint64) []byte {
	return append(strconv.AppendUint(append(dst, coveredField...), windows, 10), '}')
}

// Covered returns the windows that a row of FiguresCollection has as covered, by bit.
func Covered(row []byte) uint64 {
	_, rest, _ := bytes.Cut(row, []byte(coveredField))
	n, _ := strconv.ParseUint(string(bytes.TrimSuffix(rest, []byte("}"))), 10, 64)
	return n
}

// checkFigures returns an error unless the decimals in a row of FiguresCollection or RatesCollection
// are such. rest is what stands behind its id, by which it tells those of other collections.
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
		return fmt.Errorf("it has other figures")
	}
	for i, value := range row.Figures {
		if value != nil && !isDecimal(*value, 18) {
			return fmt.Errorf("figure %d is no decimal", i+1)
		}
	}
	return nil
}
